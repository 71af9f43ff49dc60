"""From a molecule to an answer: plan, samples, training, ensemble, analysis and report in one go."""

from boltzkit.run.answer import Answer, answer
from boltzkit.run.folder import AnswerFolder
from boltzkit.run.plan import Plan
from boltzkit.run.request import METHODS, Request
from boltzkit.run.stages import Found, find

__all__ = ["METHODS", "Answer", "AnswerFolder", "Found", "Plan", "Request", "answer", "find"]

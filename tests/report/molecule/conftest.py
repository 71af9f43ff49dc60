"""A page with realistic content, and a real browser to look at it."""

import base64
import io
import json
import math
import os
import select
import shutil
import subprocess
import sys
from dataclasses import replace
from fcntl import F_DUPFD_CLOEXEC, fcntl

import matplotlib.image
import numpy as np
import pytest
import torch
from openmm import app, unit

from boltzkit.molecule.named import alanine_dipeptide
from boltzkit.molecule.torsions import backbone_torsions
from boltzkit.report.molecule import (
    Curve,
    Histogram,
    Interval,
    MoleculeReport,
    Number,
    Profile,
    Reproduction,
    Structure,
    Surface,
    Table,
    write_molecule_report,
)

STATES = {"C5": (-150, 155, 0.44), "PII": (-72, 148, 0.31), "αR": (-75, -22, 0.226), "αL": (55, 42, 0.024)}
"""φ, ψ in degrees and the population."""
_WIDTHS = {"C5": (21, 20), "PII": (16, 22), "αR": (18, 21), "αL": (10, 14)}


def conformers():
    """Return alanine dipeptide in each state, as PDB text."""
    molecule = alanine_dipeptide()
    torsions = backbone_torsions(molecule.topology)
    for name, (phi, psi, share) in STATES.items():
        values = [
            {-2.4: math.radians(phi), 2.4: math.radians(psi)}.get(round(float(v), 6), float(v))
            for v in torsions.values
        ]
        turned = replace(torsions, values=torch.tensor(values, dtype=torch.float64)).turned(
            torch.as_tensor(molecule.positions, dtype=torch.float64)
        )
        text = io.StringIO()
        app.PDBFile.writeFile(molecule.topology, turned.numpy() * unit.nanometer, text)
        note = f"population {100 * share:.1f} % [{100 * share - 0.6:.1f}, {100 * share + 0.6:.1f}]"
        yield Structure(name, note, text.getvalue())


def dihedrals(n=120_000):
    """Return φ and ψ in degrees, as the states scatter."""
    random = np.random.default_rng(0)
    which = random.choice(len(STATES), n, p=[share for *_, share in STATES.values()])
    centre = np.array([(phi, psi) for phi, psi, _ in STATES.values()])[which]
    width = np.array([_WIDTHS[name] for name in STATES])[which]
    return (centre + width * random.normal(size=(n, 2)) + 180) % 360 - 180


def profile(title, angles, bins=72):
    counts, edges = np.histogram(angles, bins, (-180, 180))
    with np.errstate(divide="ignore"):
        free = np.where(counts > 0, -np.log(counts / counts.max()), np.nan)
        half = 1.96 * np.where(counts > 0, 3 / np.sqrt(counts), np.nan)
    centres = (edges[1:] + edges[:-1]) / 2
    raw = free + 0.35 * np.sin(np.radians(centres))
    lines = (tuple(map(float, line)) for line in (centres, free, free - half, free + half, raw))
    x, value, low, high, before = lines
    return Profile(title, "degrees", x, value, low, high, periodic=True, raw=before)


def surface(angles, bins=90):
    counts, *edges = np.histogram2d(*angles.T, bins, ((-180, 180), (-180, 180)))
    with np.errstate(divide="ignore"):
        free = np.where(counts > 0, -np.log(counts / counts.max()), np.nan)
    x, y = (tuple(map(float, edge)) for edge in edges)
    return Surface("Ramachandran, ALA2", "φ / degrees", "ψ / degrees", x, y, tuple(map(tuple, free.tolist())))


def density(values, edges):
    return tuple(map(float, np.histogram(values, edges, density=True)[0]))


def histograms():
    random = np.random.default_rng(1)
    data, flow = random.normal(-52, 4.6, 50_000), random.normal(-50.5, 5.6, 50_000)
    edges = np.linspace(-75, -25, 81)
    densities = {"data": density(data, edges), "flow": density(flow, edges)}
    densities["reweighted"] = density(random.normal(-52, 4.7, 8_000), edges)
    yield Histogram("Energy", "k_BT", tuple(map(float, edges)), densities)
    edges = np.linspace(-5, 3, 65)
    yield Histogram(
        "Log weight, relative to log Z",
        "",
        tuple(map(float, edges)),
        {"flow": density(random.normal(-0.18, 0.6, 50_000), edges)},
    )


def curves():
    steps = np.linspace(2e4, 5e6, 250)
    random = np.random.default_rng(2)
    ess = 0.93 * (1 - np.exp(-steps / 9e5)) + 0.01 * random.normal(size=250)
    nll = -13 + 9 * np.exp(-steps / 5e5) + 0.08 * random.normal(size=250)
    points = [tuple(zip(steps.tolist(), line.tolist(), strict=True)) for line in (ess, nll, nll + 0.25)]
    yield Curve("Effective sample size", "energy evaluations", "ESS / samples", {"ESS": points[0]})
    yield Curve("Loss", "energy evaluations", "loss", {"training": points[1], "validation": points[2]})


def tables():
    populations = tuple(
        Interval(
            name,
            100 * share,
            100 * share - 6 * math.sqrt(share) / 4,
            100 * share + 6 * math.sqrt(share) / 4,
            "%",
            f"φ ≈ {phi}°, ψ ≈ {psi}°".replace("-", "−"),
        )
        for name, (phi, psi, share) in STATES.items()
    )
    yield Table(
        "Populations", populations, "Regions of the Ramachandran plot; what lies between them is left out."
    )
    rows = (("C5 → PII", 0.35, 0.03), ("C5 → αR", 0.67, 0.034), ("C5 → αL", 2.91, 0.12))
    differences = tuple(
        Interval(name, value, value - half, value + half, "k_BT") for name, value, half in rows
    )
    yield Table("Free energy differences", differences, "Positive if the second state is the rarer one.")


CONFIG = json.dumps(
    {"method": "unbiased", "flow": {"layers": 12, "hidden": 256}, "steps": 20000, "seed": 0}, indent=2
)


def full_report():
    angles = dihedrals()
    return MoleculeReport(
        title="Alanine dipeptide",
        subtitle="ACE-ALA-NME, 22 atoms, Amber ff96 with OBC1 implicit solvent, 300 K",
        verdict="trust",
        reasons=(
            "46,120 effective samples of 50,000, Pareto k is 0.21, the largest weight is 0.011 % of the total.",
        ),
        headline=(
            Number("Effective samples", "92.2 %", "46,120 of 50,000"),
            Number("Pareto k", "0.21", "limit 0.70"),
            Number("log Z", "−13.871", "[−13.876, −13.866]"),
            Number("Energy evaluations", "5.05 M", "5.00 M in training"),
        ),
        structures=tuple(conformers()),
        tables=tuple(tables()),
        surfaces=(surface(angles),),
        profiles=(profile("φ of ALA2", angles[:, 0]), profile("ψ of ALA2", angles[:, 1])),
        histograms=tuple(histograms()),
        curves=tuple(curves()),
        remarks=(
            "The data hold no structure with φ between 90° and 150°, so the barrier there is a lower limit.",
            "All peptide bonds are trans; cis bonds were not sampled.",
        ),
        reproduction=Reproduction(
            ("boltzkit run alanine-dipeptide --seed 0 --out runs/a", "boltzkit report runs/a"),
            CONFIG,
            {"boltzkit": "0.1.0", "Python": "3.11.9", "PyTorch": "2.6.0", "OpenMM": "8.2.0"},
        ),
    )


@pytest.fixture(scope="session")
def report():
    return full_report()


@pytest.fixture(scope="session")
def page(report, tmp_path_factory):
    """The path of the full page."""
    path = tmp_path_factory.mktemp("page") / "report.html"
    write_molecule_report(report, path)
    return path


class Browser:
    """Chromium without a window, spoken to through a pipe in the DevTools protocol; no socket is involved."""

    def __init__(self, program, folder, *options):
        self.number, self.rest, self.session, self.events = 0, b"", None, []
        (commands, self.to_browser), (self.from_browser, answers) = (_pipe(), _pipe())
        launch = [sys.executable, "-I", "-S", "-c", _LAUNCH, str(commands), str(answers)]
        profile = f"--user-data-dir={folder / 'profile'}"
        with open(folder / "browser.log", "wb") as log:
            self.process = subprocess.Popen(
                [*launch, program, *_OPTIONS, profile, *options, "about:blank"],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=(commands, answers),
            )
        os.close(commands)
        os.close(answers)
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method, **parameters):
        """Send a command and return its answer; events that come before it are kept."""
        self.number += 1
        session = {"sessionId": self.session} if self.session else {}
        message = {"id": self.number, "method": method, "params": parameters, **session}
        os.write(self.to_browser, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]

    def _next(self):
        while b"\0" not in self.rest:
            if not select.select([self.from_browser], [], [], 120)[0]:
                raise RuntimeError("the browser does not answer")
            found = os.read(self.from_browser, 1 << 20)
            if not found:
                raise RuntimeError("the browser has ended")
            self.rest += found
        text, self.rest = self.rest.split(b"\0", 1)
        message = json.loads(text)
        if "method" in message:
            self.events.append(message)
        return message

    def open(self, path, width=900, height=700, theme="light", media="screen", touch=False):
        """Load a page as some screen or paper shows it, and wait until it is drawn."""
        self.events = []
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=touch,
        )
        self.call("Emulation.setTouchEmulationEnabled", enabled=touch)
        self.show_as(theme, media)
        self.call("Page.navigate", url=path.as_uri())
        while not any(event["method"] == "Page.loadEventFired" for event in self.events):
            self._next()
        self.settle()

    def show_as(self, theme="light", media="screen"):
        features = [{"name": "prefers-color-scheme", "value": theme}]
        self.call("Emulation.setEmulatedMedia", media=media, features=features)

    def settle(self):
        """Wait for two frames, so that what was asked for is on the screen."""
        self.run("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(0))))")

    def pause(self):
        """Wait as long as the browser may take to act on a finger or a wheel."""
        self.run("new Promise(done => setTimeout(done, 200))")
        self.settle()

    def run(self, expression):
        """Return the value of a JavaScript expression."""
        found = self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in found:
            raise RuntimeError(found["exceptionDetails"])
        return found["result"].get("value")

    def box(self, selector):
        """Return left, top, width and height of an element, in the window."""
        script = f"(b => [b.x, b.y, b.width, b.height])(document.querySelector({json.dumps(selector)})"
        return self.run(script + ".getBoundingClientRect())")

    def click(self, selector):
        self.run(f"document.querySelector({json.dumps(selector)}).click()")
        self.settle()

    def press(self, key):
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key)
        self.settle()

    def mouse(self, kind, x, y, **more):
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    def picture(self, selector=None):
        """Return the pixels of an element, scrolled into the window, or of the window, ``(height, width, 3)``."""
        clip = {}
        if selector:
            element = f"document.querySelector({json.dumps(selector)})"
            self.run(f"{element}.scrollIntoView({{block: 'center', behavior: 'instant'}})")
            x, y, width, height = self.box(selector)
            x, y = x + self.run("scrollX"), y + self.run("scrollY")
            clip = {"clip": {"x": x, "y": y, "width": width, "height": height, "scale": 1}}
        data = self.call("Page.captureScreenshot", format="png", **clip)["data"]
        return matplotlib.image.imread(io.BytesIO(base64.b64decode(data)))[..., :3]

    def complaints(self):
        """Return errors and warnings: uncaught exceptions, the console's, and those of the content policy."""
        self.settle()
        kinds = ("Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded")
        return [event["params"] for event in self.events if event["method"] in kinds]

    def requests(self):
        """Return the addresses that were asked for, without those that hold their own content."""
        sent = [event for event in self.events if event["method"] == "Network.requestWillBeSent"]
        addresses = [event["params"]["request"]["url"] for event in sent]
        return [address for address in addresses if not address.startswith("data:")]

    def close(self):
        self.process.terminate()
        self.process.wait(30)
        os.close(self.to_browser)
        os.close(self.from_browser)


# The browser reads commands from its descriptor 3 and answers on 4.
_LAUNCH = """
import os, sys
os.dup2(int(sys.argv[1]), 3)
os.dup2(int(sys.argv[2]), 4)
os.execv(sys.argv[3], sys.argv[3:])
"""
_OPTIONS = (
    "--headless=new",
    "--remote-debugging-pipe",
    "--hide-scrollbars",
    "--no-first-run",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--host-resolver-rules=MAP * ~NOTFOUND",
    # Chromium refuses to sandbox itself for the administrator, who runs tests in containers.
    *(["--no-sandbox"] if os.geteuid() == 0 else []),
)
_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def _pipe():
    """Return both ends of a pipe, above the descriptors that the browser uses."""
    ends = os.pipe()
    moved = [fcntl(end, F_DUPFD_CLOEXEC, 10) for end in ends]
    for end in ends:
        os.close(end)
    return moved


@pytest.fixture(scope="session")
def start_browser(tmp_path_factory):
    """A function that starts a browser with options; all are ended at last."""
    program = next(filter(None, map(shutil.which, _NAMES)), None)
    if program is None:
        pytest.skip("needs Chromium, for example Debian's package chromium")
    started = []

    def start(*options):
        started.append(Browser(program, tmp_path_factory.mktemp("browser"), *options))
        return started[-1]

    yield start
    for browser in started:
        browser.close()


@pytest.fixture(scope="session")
def browser(start_browser):
    """A browser that draws WebGL in software."""
    return start_browser("--use-angle=swiftshader", "--enable-unsafe-swiftshader")


@pytest.fixture(scope="session")
def plain_browser(start_browser):
    """A browser without WebGL, which is also much quicker to look at everything else with."""
    return start_browser("--disable-3d-apis")

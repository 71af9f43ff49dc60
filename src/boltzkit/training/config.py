"""How to descend: steps, optimiser, schedule, safety."""

from typing import Literal

from pydantic import Field

from boltzkit.config import Config

__all__ = ["TrainingConfig"]


class TrainingConfig(Config):
    """One optimisation from start to end."""

    steps: int = Field(10_000, ge=1)
    """Gradient steps."""
    batch: int = Field(1024, ge=1)
    """Samples per step, of all ranks together."""
    accumulate: int = Field(1, ge=1)
    """Parts that a rank divides its batch into where memory is short; the gradient is that of the whole batch, the
    centre of the dispersion included, at the price of one more pass through the flow."""
    products: Literal["highest", "high", "medium"] = "highest"
    """Precision of matrix products while training, where the hardware has faster ones than float32: `high` is TF32 on
    NVIDIA GPUs, `medium` may be bfloat16. Results change; everything else, and all of sampling, stays float32."""
    gradients: Literal["float32", "bfloat16"] = "float32"
    """Precision of the factors in the backward pass of spline flows on CPUs that multiply bfloat16 faster (elsewhere
    this changes nothing): a step takes three quarters of its time, the loss stays float32. Parts and ranks then add up
    to the whole batch's gradient within some thousandths, not to the last digits."""
    compile: bool = False
    """Let torch.compile work on the layers of spline flows and TarFlow while training, for GPUs. It takes about a
    minute at the start, and results change by rounding errors. Flows that run in C++ on a CPU do not need it."""
    optimiser: Literal["adam", "adamw", "muon"] = "adam"
    """`adam` adds weight decay to the gradient (as the paper does), `adamw` decouples it. `muon` moves the hidden
    matrices of spline flows and TarFlow by orthogonal steps and all else by Adam: fewer steps, each a bit dearer."""
    learning_rate: float = Field(1e-3, gt=0)
    """Peak learning rate; the paper tunes it for every experiment."""
    betas: tuple[float, float] = (0.9, 0.999)
    """Adam's decay rates of the first and second moment."""
    weight_decay: float = Field(0.0, ge=0)
    """Weight decay (the paper: 1e-5 on molecules, none on the Gaussian mixture)."""
    schedule: Literal["cosine", "constant"] = "cosine"
    """One cosine cycle to zero, or constant."""
    warm_up: int = Field(0, ge=0)
    """Steps of linear learning-rate warm-up."""
    clip: float | None = Field(None, gt=0)
    """Largest gradient norm, per replica; longer gradients are scaled down."""
    ema: float | None = Field(None, gt=0, lt=1)
    """Decay of the exponential moving average of the weights that evaluation uses; none by default."""
    max_failed_steps: int = Field(20, ge=1)
    """Steps in a row with a loss or gradient that is not finite before training gives up."""
    log_every: int = Field(100, ge=1)
    """Steps between lines of metrics.jsonl."""
    validate_every: int = Field(1000, ge=1)
    """Steps between validations."""
    checkpoint_every: int = Field(1000, ge=1)
    """Steps between checkpoints."""

"""What fit(progress=True) draws: a bar of tqdm per epoch."""

from typing import Any

from traingraph._whole_import import whole_import


class Progress:
    """Drawn by tqdm, in a terminal and in a notebook."""

    def __init__(self, epochs: int) -> None:
        use = "fit(progress=True) draws with it"
        self.tqdm, self.epochs = whole_import("tqdm.auto", "tqdm", use).tqdm, epochs
        self.bar: Any = None

    def show(self, epoch: int, steps: int, of_steps: int, loss: float) -> None:
        total = of_steps or None  # not known before the first epoch of batches is over
        if self.bar is None:
            self.bar = self.tqdm(total=total, desc=f"epoch {epoch}/{self.epochs}")
        self.bar.set_postfix(loss=f"{loss:.4g}", refresh=False)
        self.bar.total = total
        self.bar.update(steps - self.bar.n)
        if steps == of_steps:  # the validation and callbacks are none of it
            self.close()

    def close(self) -> None:
        if self.bar is not None:
            self.bar.close()
            self.bar = None

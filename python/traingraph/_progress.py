"""What fit(progress=True) draws: a bar of tqdm per epoch."""

from typing import Any


class Progress:
    """Drawn by tqdm, in a terminal and in a notebook."""

    def __init__(self, epochs: int) -> None:
        try:
            from tqdm.auto import tqdm
        except ImportError as error:
            error.add_note("fit(progress=True) draws with it: pip install tqdm")
            raise
        self.tqdm, self.epochs = tqdm, epochs
        self.epoch, self.bar = 0, None

    def show(self, epoch: int, steps: int, of_steps: int, loss: float) -> None:
        if epoch != self.epoch:
            self.close()
            self.bar: Any = self.tqdm(total=of_steps, desc=f"epoch {epoch}/{self.epochs}")
            self.epoch = epoch
        self.bar.set_postfix(loss=f"{loss:.4g}", refresh=False)
        self.bar.update(steps - self.bar.n)

    def close(self) -> None:
        if self.bar is not None:
            self.bar.close()

"""What fit(progress=True) draws: a bar of tqdm per epoch."""

from typing import Any


class Progress:
    """Drawn by tqdm, in a terminal and in a notebook."""

    def __init__(self, epochs: int) -> None:
        try:
            from tqdm.auto import tqdm  # type: ignore[import-untyped]
        except ImportError as error:
            error.add_note("fit(progress=True) draws with it: pip install tqdm")
            raise
        self.tqdm, self.epochs = tqdm, epochs
        self.bars: dict[int, Any] = {}

    def show(self, epoch: int, steps: int, of_steps: int, loss: float) -> None:
        if epoch not in self.bars:
            self.close()
            total = of_steps or None  # not known before the first epoch of batches is over
            self.bars[epoch] = self.tqdm(total=total, desc=f"epoch {epoch}/{self.epochs}")
        bar = self.bars[epoch]
        bar.set_postfix(loss=f"{loss:.4g}", refresh=False)
        bar.update(steps - bar.n)

    def close(self) -> None:
        for bar in self.bars.values():
            bar.close()
        self.bars.clear()

"""A program of Lightning that knows nothing of tierscope.

It has three epochs, each with a validation.
"""

import sys
import time
from pathlib import Path

import lightning
import torch
from torch.utils.data import DataLoader, Dataset

FOLDER, EPOCHS, N_HELD_OUT = sys.argv[1], 3, 8
PAUSE_S = 0.5  # for what else a program does after an epoch


class Files(Dataset):
    """Files of one sample each."""

    def __init__(self, paths: list[Path]):
        self.paths = paths

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> torch.Tensor:
        content = bytearray(self.paths[index].read_bytes())
        return torch.frombuffer(content, dtype=torch.float32)


class Model(lightning.LightningModule):
    """One layer."""

    def __init__(self):
        super().__init__()
        self.layer = torch.nn.LazyLinear(1)

    def training_step(self, batch):
        return self.layer(batch).square().mean()

    def on_train_epoch_end(self):
        time.sleep(PAUSE_S)

    def validation_step(self, batch):
        self.log("loss", self.layer(batch).square().mean())

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=1e-4)


def main() -> None:
    """Train."""
    paths = sorted(path for path in Path(FOLDER).rglob("*") if path.is_file())
    train, held = Files(paths[:-N_HELD_OUT]), Files(paths[-N_HELD_OUT:])
    trainer = lightning.Trainer(
        max_epochs=EPOCHS,
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    more = {"batch_size": 4, "num_workers": 2}
    trainer.fit(
        Model(), DataLoader(train, shuffle=True, **more), DataLoader(held, **more)
    )


if __name__ == "__main__":
    main()

"""Trains a classifier over all ranks that a launcher starts, and goes on from the last checkpoint.

python train.py FOLDER [EPOCHS] [DEVICE]

FOLDER is the same for all ranks: x.npy (samples, features) float32 and y.npy (samples,) int32 are
read from it, and model.safetensors is written. DEVICE is cpu, or gpu for a GPU per rank.
"""

import sys
from pathlib import Path

import numpy as np

import traingraph as tg
from traingraph import nn

folder = Path(sys.argv[1])
epochs = int(sys.argv[2]) if len(sys.argv) > 2 else 100
device = sys.argv[3] if len(sys.argv) > 3 else "cpu"

world = tg.distributed.world()  # waits for all ranks
# Not read as a whole: the system brings in what a rank takes of each batch.
x, y = (np.load(folder / f"{name}.npy", mmap_mode="r") for name in ("x", "y"))
tg.MLCPlatform.set_rng_seed_to(0)
model = nn.model(
    [nn.dense(256), "relu", nn.dropout(0.2), nn.dense(int(y.max()) + 1)],
    input=x.shape[1],
    batch_size=128 // world.size,  # of a rank: 1, 2, 4 … ranks go on with the same global batches
    device=f"gpu:{world.local_rank}" if device == "gpu" else device,
    distributed=world,
)
path = str(folder / "model.safetensors")
done = model.fit(
    x,
    labels=y,
    epochs=epochs,
    resume=path,  # from the beginning where there is none
    callbacks=[tg.Checkpoint(path=path, every_steps=200)],
)
if world.rank == 0 and done:
    print(f"{world.size} ranks, epoch {done[-1].number}, loss {done[-1].loss:.4f}")

"""Archives that an earlier version has written are read, and written again to the same bytes."""

import json
import pickle
from pathlib import Path

import pytest
from coded import CASES

from traingraph import mps

# One archive a line: every case of a kernel, graphs, and descriptors of convolutions.
STORED = Path(__file__).with_name("archives.jsonl").read_text(encoding="utf-8").splitlines()
KINDS = [json.loads(line)["class"] for line in STORED]


def test_every_class_is_stored():
    descriptors = {f"MPSCNN{kind}ConvolutionDescriptor" for kind in ("", "DepthWise", "SubPixel")}
    assert set(KINDS) == {*CASES, "MPSNNGraph", *descriptors}


@pytest.mark.parametrize("number", range(len(STORED)), ids=lambda k: f"{k}-{KINDS[k]}")
def test_an_archive_of_before(number):
    data = STORED[number].encode()
    made = mps.MPSKeyedUnarchiver.unarchive_object(with_data=data, device="reference")
    assert type(made).__name__ == KINDS[number]
    assert mps.NSKeyedArchiver.archived_data(with_root_object=made) == data


@pytest.mark.parametrize("number", range(len(STORED)), ids=lambda k: f"{k}-{KINDS[k]}")
def test_a_pickle_is_the_archive(number):
    data = STORED[number].encode()
    made = mps.MPSKeyedUnarchiver.unarchive_object(with_data=data, device="reference")
    read, nothing = made.__reduce__()
    on = "reference" if hasattr(made, "device") else "cpu"
    assert (read.keywords, nothing) == ({"with_data": data, "device": on}, ())
    again = pickle.loads(pickle.dumps(made))
    assert type(again) is type(made)
    assert mps.NSKeyedArchiver.archived_data(with_root_object=again) == data
    if hasattr(made, "device"):
        assert again.device == made.device

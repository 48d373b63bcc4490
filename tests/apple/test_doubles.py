"""The checks of the doubles: what they do right, and each broken rule that they must catch."""

import os
import subprocess
from pathlib import Path

import pytest

# The checks, read from their sources so that each is a test of its own.
CHECKS = sorted(
    line.partition("(")[2].partition(")")[0]
    for path in (Path(__file__).parent / "checks").glob("*.mm")
    for line in path.read_text().splitlines()
    if line.startswith("CHECK(")
)
# What a broken rule must be answered with.
SENTENCES = {
    "broken_autorelease_without_pool": "outside of any NSAutoreleasePool",
    "broken_pools_out_of_order": "innermost first",
    "broken_unknown_selector": "CheckBase has no method length",
    "broken_index_beyond_an_array": "beyond the end of an NSArray",
    "broken_encoder_not_ended": "committed before its encoder was ended",
    "broken_two_encoders": "a blit encoder is encoded while another encoder is not ended",
    "broken_encoding_after_commit": "after the commit of its command buffer",
    "broken_use_after_end": "used after endEncoding",
    "broken_commit_twice": "committed twice",
    "broken_wait_before_commit": "not committed is waited for",
    "broken_buffer_not_set": "add_one runs without its buffer 1",
    "broken_too_many_threads": "more threads than its pipeline allows",
    "broken_too_many_bytes": "setBytes: takes 1 to 4096 bytes",
    "broken_write_beyond_a_buffer": "wrote beyond the end of an MTLBuffer",
}


def run(doubles: Path, name: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [doubles / "apple_checks", name],
        capture_output=True,
        text=True,
        env=os.environ | {"ASAN_OPTIONS": "detect_leaks=0:handle_abort=0"},
    )


@pytest.mark.parametrize("name", [name for name in CHECKS if not name.startswith("broken_")])
def test_check(doubles: Path, name: str) -> None:
    done = run(doubles, name)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", [name for name in CHECKS if name.startswith("broken_")])
def test_broken_rules_end_the_program(doubles: Path, name: str) -> None:
    done = run(doubles, name)
    assert done.returncode == -6, (done.returncode, done.stderr)
    assert "Apple double: " in done.stderr
    assert SENTENCES[name] in done.stderr


def test_every_sentence_has_its_check(doubles: Path) -> None:
    listed = subprocess.run(
        [doubles / "apple_checks"], capture_output=True, text=True, check=True
    ).stdout.split()
    assert sorted(listed) == CHECKS
    assert {name for name in CHECKS if name.startswith("broken_")} == set(SENTENCES)

"""The launch files of examples/launch, with stand-ins for what only a cluster has; and torchrun."""

import importlib.util
import os
import re
import shlex
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import launch

FILES = Path(__file__).resolve().parents[2] / "examples" / "launch"
NODES = 2

# As many tasks at once as the job has, each with its number; --kill-on-bad-exit. Options end where
# the first word without a dash is.
SRUN = f"""#!{sys.executable}
import os, subprocess, sys, time
words = sys.argv[1:]
assert "--kill-on-bad-exit=1" in words
while words[0].startswith("-"):
    words.pop(0)
count = int(os.environ["SLURM_NTASKS"])
tasks = [
    subprocess.Popen(words, env={{**os.environ, "SLURM_PROCID": str(k)}}) for k in range(count)
]
while any(task.poll() is None for task in tasks) and not any(task.poll() for task in tasks):
    time.sleep(0.05)
for task in tasks:
    task.kill()
sys.exit(max(map(abs, (task.wait() for task in tasks))))
"""
SCONTROL = """#!/bin/sh
case $1 in
  show) echo 127.0.0.1; echo second.test ;;
  requeue) echo "requeued $2" ;;
esac
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """What train.py reads."""
    random = np.random.default_rng(0)
    x = random.standard_normal((640, 6), dtype=np.float32)
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "y.npy", (x.sum(axis=1) > 0).astype(np.int32))
    return tmp_path


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


# --- Slurm ---------------------------------------------------------------------------------------


def run_slurm(folder: Path, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    programs = folder / "bin"
    programs.mkdir(exist_ok=True)
    for name, text in (("srun", SRUN), ("scontrol", SCONTROL)):
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    # The port is made of the number of the job.
    job = {
        "SLURM_JOB_ID": str(free_port() - 20000),
        "SLURM_JOB_NODELIST": "node[1-2]",
        "SLURM_NTASKS": str(NODES),
        "SLURM_CPUS_PER_TASK": "1",
        "SLURM_SUBMIT_DIR": str(FILES),
        "PYTHON": sys.executable,
        "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
    }
    return subprocess.run(
        ["bash", str(FILES / "train.slurm"), str(folder), *words],
        env={**launch.clean(), **job, **variables},
        capture_output=True,
        text=True,
        timeout=launch.LIMIT,
    )


def test_the_batch_script_is_one_of_bash():
    done = subprocess.run(
        ["bash", "-n", str(FILES / "train.slurm")], capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")
    text = (FILES / "train.slurm").read_text()
    # Options behind the first command are none.
    assert "#SBATCH" not in text[text.index("set -u") :]
    assert {"--requeue", "--nodes=4", "--ntasks-per-node=1"} <= set(
        re.findall(r"^#SBATCH (\S+)$", text, re.MULTILINE)
    )


def test_a_job_of_slurm_trains_and_goes_on(folder):
    done = run_slurm(folder, "2")
    assert done.returncode == 0, done.stderr
    assert "2 ranks, epoch 2, loss " in done.stdout
    again = run_slurm(folder, "3")
    assert again.returncode == 0, again.stderr
    assert "2 ranks, epoch 3, loss " in again.stdout
    assert "requeued" not in done.stdout + again.stdout


def test_a_job_of_slurm_that_fails_is_queued_again(folder):
    (folder / "y.npy").unlink()
    done = run_slurm(folder)
    assert done.returncode != 0
    assert re.search(r"^requeued \d+$", done.stdout, re.MULTILINE)
    assert "requeued" not in run_slurm(folder, SLURM_RESTART_COUNT="20").stdout


# --- Kubernetes ----------------------------------------------------------------------------------


def objects() -> dict[str, Any]:
    yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")
    found = list(yaml.safe_load_all((FILES / "train.yaml").read_text()))
    return {each["kind"]: each for each in found}


def test_the_pods_find_each_other():
    found = objects()
    service, job = found["Service"], found["Job"]["spec"]
    pod = job["template"]["spec"]
    assert (job["completionMode"], job["completions"]) == ("Indexed", job["parallelism"])
    assert service["spec"]["clusterIP"] == "None"
    assert service["spec"]["selector"] == {"job-name": found["Job"]["metadata"]["name"]}
    assert pod["subdomain"] == service["metadata"]["name"]
    (container,) = pod["containers"]
    variables = {each["name"]: each for each in container["env"]}
    assert variables["WORLD_SIZE"]["value"] == str(job["completions"])
    host = f"{found['Job']['metadata']['name']}-0.{service['metadata']['name']}"
    assert variables["MASTER_ADDR"]["value"] == host
    index = "metadata.annotations['batch.kubernetes.io/job-completion-index']"
    assert variables["RANK"]["valueFrom"]["fieldRef"]["fieldPath"] == index
    assert all(isinstance(each.get("value", ""), str) for each in container["env"])
    (mount,), (volume,) = container["volumeMounts"], pod["volumes"]
    assert mount["name"] == volume["name"]
    assert mount["mountPath"] in container["command"]


def test_a_pod_runs_a_rank(folder):
    """With its command and variables, in two pods on this machine."""
    (container,) = objects()["Job"]["spec"]["template"]["spec"]["containers"]
    given = {each["name"]: each["value"] for each in container["env"] if "value" in each}
    here = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    python, program, data, epochs = container["command"]
    assert (python, Path(program).name) == ("python", "train.py")
    pods = [
        subprocess.Popen(
            [sys.executable, str(FILES / "train.py"), str(folder), "2"],
            env={**launch.clean(), **given, **here, "RANK": str(index)},
            stdout=subprocess.PIPE,
            text=True,
        )
        for index in range(2)
    ]
    out = [pod.communicate(timeout=launch.LIMIT)[0] for pod in pods]
    assert [pod.returncode for pod in pods] == [0, 0]
    assert data.startswith("/")
    assert epochs.isdigit()
    assert "2 ranks, epoch 2, loss " in out[0]
    assert out[1] == ""


def test_other_numbers_of_ranks_go_on(folder):
    """One rank, and then two, over the same batches."""
    program = [sys.executable, str(FILES / "train.py"), str(folder)]
    subprocess.run([*program, "1"], env=launch.clean(), check=True, timeout=launch.LIMIT)
    done = run_slurm(folder, "2")
    assert "2 ranks, epoch 2, loss " in done.stdout, done.stderr


# --- torchrun ------------------------------------------------------------------------------------


def torchrun(scenario: str, options: launch.Result, *words: str) -> Any:
    if importlib.util.find_spec("torch") is None:
        pytest.skip("torch is not installed")
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", *words]
    return subprocess.run(
        [*command, *launch.command(scenario, options)[1:]],
        env=launch.clean(),
        capture_output=True,
        text=True,
        timeout=launch.LIMIT,
    )


@pytest.mark.parametrize("words", [["--standalone"], ["--master-port", "{port}"]], ids=shlex.join)
def test_torchrun_starts_ranks(words):
    """Its own store has the port of MASTER_PORT."""
    options = {"net": "dropout", "steps": 5}
    done = torchrun("steps", options, *(word.format(port=free_port()) for word in words))
    assert done.returncode == 0, done.stderr
    results = launch.printed(done.stdout, 2)
    assert {(result["size"], result["engine"]) for result in results} == {(2, "sockets")}
    expected = launch.ranks("steps", **options)
    assert len({result["digest"] for result in [*results, *expected]}) == 1


def test_torchrun_starts_all_ranks_again(tmp_path):
    """After one has ended: the fit goes on from its checkpoint, to the bits of one that did not."""
    file = tmp_path / "model.safetensors"
    options = {"net": "dropout", "file": str(file)}
    done = torchrun("restarts", options, "--standalone", "--max-restarts", "1")
    assert done.returncode == 0, done.stderr
    results = launch.printed(done.stdout, 2)
    assert {result["starts"] for result in results} == {"1"}
    file.unlink()
    expected = launch.ranks("restarts", **options)
    assert len({result["digest"] for result in [*results, *expected]}) == 1

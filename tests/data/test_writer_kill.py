"""kill -9 during commits: the dataset is readable after each, and in the end every sample is there once.

One process imports everything and then forks writers that die by SIGKILL: first at every single file operation of a
commit in turn, then at moments of chance, which may also lie within a write.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import boltzkit

KILLS, STEP = 8, 3

DRIVER = f"""
import json, os, random, signal, sys, time
import numpy as np
from boltzkit.data import About, Dataset, DatasetWriter

signal.alarm(100)  # rather than waiting for a writer that ended by itself
folder = sys.argv[1]
about = About(molecule="pair", molecule_hash="0" * 64, n_atoms=2, temperature=300.0)

def write(shards):
    with DatasetWriter(folder, about) as writer:
        for i in range(shards):
            if f"piece {{i}}" not in writer:
                n = 1 + i % 5
                columns = {{
                    "positions": np.full((n, 2, 3), i), "energy": np.full(n, float(i)),
                    "trajectory": np.full(n, i), "frame": np.arange(n),
                }}
                writer.append(f"piece {{i}}", ("train", "validation", "test")[i % 3], columns)

def start(shards, fatal=None):
    child = os.fork()
    if child == 0:
        operations = 0
        def die(event, arguments):
            nonlocal operations
            if event in ("open", "os.rename", "os.remove") and folder in str(arguments[0]):
                operations += 1
                if operations == fatal:
                    os.kill(os.getpid(), signal.SIGKILL)
        sys.addaudithook(die)
        write(shards)
        os._exit(0)
    return child

def committed():
    path = os.path.join(folder, "manifest.json")
    if not os.path.exists(path):
        return 0
    with open(path) as file:
        return len(json.load(file)["shards"])

def outcome(child):
    _, status = os.waitpid(child, 0)
    found = {{"killed": os.WIFSIGNALED(status), "code": status, "shards": 0, "whole": True}}
    found["files"] = sum(os.path.isfile(os.path.join(folder, "shards", name))
                         for name in os.listdir(os.path.join(folder, "shards"))) if os.path.isdir(folder) else 0
    if os.path.exists(os.path.join(folder, "manifest.json")):
        dataset = Dataset.open(folder)
        keys = [shard.key for shard in dataset.manifest.shards]
        found["shards"] = len(keys)
        found["whole"] = (
            keys == [f"piece {{i}}" for i in range(len(keys))]
            and len(dataset) == sum(1 + i % 5 for i in range(len(keys)))
            and dataset.verify().problems == ()
        )
    return found

each = []
while not each or each[-1]["killed"]:
    each.append(outcome(start(committed() + 1, fatal=len(each) + 1)))

draw, chance = random.Random(1), []
for _ in range({KILLS}):
    goal = committed() + {STEP}
    child = start(1000)
    while committed() < goal:
        time.sleep(0.0005)
    time.sleep(draw.uniform(0.0, 0.01))
    os.kill(child, signal.SIGKILL)
    chance.append(outcome(child))

total = committed() + 3
last = outcome(start(total))
print(json.dumps([each, chance, last, total]))
"""


@pytest.fixture(scope="module")
def outcome(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list]:
    folder = tmp_path_factory.mktemp("kill") / "data"
    environment = os.environ | {"PYTHONPATH": str(Path(boltzkit.__file__).parents[1])}
    answer = subprocess.run(
        [sys.executable, "-c", DRIVER, str(folder)],
        capture_output=True,
        text=True,
        check=True,
        env=environment,
    )
    return folder, json.loads(answer.stdout)


def test_kills_hit_writers_at_work(outcome):
    _, (each, chance, last, _) = outcome
    # Every operation of opening a dataset and committing a shard was the last one once; then none was left.
    assert len(each) > 20
    assert all(kill["killed"] for kill in [*each[:-1], *chance])
    assert each[-1]["code"] == last["code"] == 0
    # Controls: kills hit before the first file, between files, and after the manifest.
    extra = {kill["files"] - 4 * kill["shards"] for kill in each}
    assert {0, 1, 2, 3, 4} <= extra
    assert len({kill["shards"] for kill in each}) > 1


def test_after_each_kill_the_dataset_is_readable_and_whole(outcome):
    _, (each, chance, last, _) = outcome
    assert all(kill["whole"] for kill in [*each, *chance, last])
    counts = [kill["shards"] for kill in [*each, *chance, last]]
    assert counts == sorted(counts)


def test_in_the_end_every_sample_is_there_once(outcome):
    from boltzkit.data import Dataset

    folder, (*_, total) = outcome
    dataset = Dataset.open(folder)
    assert len(dataset.manifest.shards) == total
    expected = [float(i) for i in range(total) for _ in range(1 + i % 5)]
    assert dataset.energy(range(len(dataset))).tolist() == expected
    assert len(list((folder / "shards").iterdir())) == 4 * total

"""What a lent machine has, and where: none of it need be first on a path."""

import contextlib
import glob
import json
import os
import shutil
import subprocess
import sys

# A program of its own, so that nothing else waits: a whole folder or none.
UNPACK = """import os, sys, tarfile
with tarfile.open(sys.argv[1]) as archive:
    archive.extractall(sys.argv[2] + ".part", filter="tar")
os.rename(sys.argv[2] + ".part", sys.argv[2])"""


def device():
    """What nvidia-smi says of the first device; the compute mode among it. Empty where it says nothing."""
    asked = "name,uuid,driver_version,memory.total,compute_mode,clocks.max.sm,power.limit,pcie.link.gen.current"
    with contextlib.suppress(subprocess.SubprocessError, OSError):
        says = subprocess.run(["nvidia-smi", "--query-gpu=" + asked, "--format=csv,noheader"], capture_output=True, text=True,
                              timeout=30, check=True).stdout
        return dict(zip(asked.split(","), (word.strip() for word in says.split("\n")[0].split(","))))
    return {}


def python_with_torch():
    """-> the interpreter that has PyTorch, and the folders of its packages; this one and none where there is no such."""
    ask = "import importlib.util as u, json, sys; print(json.dumps(sys.path if u.find_spec('torch') else []))"
    homes = [os.environ.get("VIRTUAL_ENV", ""), os.environ.get("CONDA_PREFIX", "")]
    homes += [*glob.glob("/opt/*/.venv"), *glob.glob("/opt/*"), "/usr/local", "/usr"]
    for python in [shutil.which("python3"), sys.executable, *(home + "/bin/python3" for home in homes)]:
        with contextlib.suppress(subprocess.SubprocessError, ValueError, OSError, TypeError):
            places = json.loads(subprocess.run([python, "-c", ask], capture_output=True, timeout=20).stdout)
            if places:
                return python, places
    return sys.executable, []


def cuda_folders(places):
    """Where CUDA's libraries lie: with PyTorch where it brings some, so that both sides use the same; else in a toolkit."""
    folders = [folder for place in places for folder in sorted(glob.glob(place + "/nvidia/*/lib"))]
    return folders + [*glob.glob("/usr/local/cuda/lib64"), *glob.glob("/usr/local/cuda-13*/lib64")]


def sanitizer():
    homes = [os.environ.get("CUDA_HOME", ""), "/usr/local/cuda", "/usr/local/cuda/compute-sanitizer", "/opt/nvidia"]
    folders = [os.environ.get("PATH", ""), *homes, *(home + "/bin" for home in homes)]
    return shutil.which("compute-sanitizer", path=os.pathsep.join(folders))


def environments(device, programs, built_here, backend, places):
    """-> of our programs, and of PyTorch's. `device`: the folder of what is kept for one model of device."""
    cuda = cuda_folders(places)
    ours = {**os.environ, "MILLRACE_GPU_TEST_BACKEND": backend, "MILLRACE_TEST_RECORDS": "1",
            "MILLRACE_CACHE": device + "/cache", "MILLRACE_CUDA_LIBRARIES": ":".join(cuda),
            "MILLRACE_PIPELINES": programs + "/share/millrace/pipelines"}
    if not built_here:
        ours["LD_LIBRARY_PATH"] = ":".join([programs + "/lib", programs + "/lib/carried", *cuda, "/usr/local/nvidia/lib64"])
    theirs = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": device + "/torch/inductor", "TRITON_CACHE_DIR": device + "/torch/triton"}
    return ours, theirs

"""A run that is killed and resumed, as TensorBoard, MLflow and Prometheus read it.

    python3 -m venv readers && readers/bin/pip install tensorboard mlflow prometheus_client
    MILLRACE_RECORDS=readers/bin/python records.py BIN_FOLDER SOURCE_FOLDER

Skipped (exit code 77) unless MILLRACE_RECORDS names the Python that has the readers.
"""

import contextlib
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request

STEPS = 20  # in the run
KILLED_AFTER = 10  # checkpoints are after each fourth step
PIPELINE = """
extends = "{source}/pipelines/quickstart.toml"
[run]
name = "recorded"
epochs = 2
[checkpoint]
every = "4 steps"
[train]
flow = ["read", "decode_image", "augment", "batch", "write_batches", "forward_backward", "allreduce", "write_gradients", "optimizer", "metrics"]
[train.write_gradients]
every = 2
[train.batch]
size = 200
[observe]
prometheus = true
[observe.tensorboard]
histograms = true
images = true
[observe.mlflow]
uri = "{uri}"
experiment = "records"
"""


def expect(what, found, wanted):
    if found != wanted:
        sys.exit(f"{what}: found {found!r}, expected {wanted!r}")


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@contextlib.contextmanager
def mlflow_server(folder):
    """MLflow's own server on this machine."""
    uri = f"http://127.0.0.1:{free_port()}"
    command = [sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", uri.rsplit(":", 1)[1], "--workers", "1",
               "--backend-store-uri", f"sqlite:///{folder}/mlflow.db", "--default-artifact-root", str(folder / "artifacts")]
    with open(folder / "server.log", "wb") as log:
        server = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
    try:
        for _ in range(600):
            with contextlib.suppress(OSError):
                urllib.request.urlopen(uri + "/health", timeout=5).close()
                break
            time.sleep(0.1)
        urllib.request.urlopen(uri + "/api/2.0/mlflow/experiments/get?experiment_id=0", timeout=60).close()  # the first one is slow
        yield uri
    finally:
        os.killpg(server.pid, signal.SIGKILL)
        server.wait()


def steps_of(folder):
    """Steps that metrics.jsonl tells of, in their order."""
    with open(folder / "metrics.jsonl", encoding="utf-8") as lines:
        events = [json.loads(line) for line in lines if line.endswith("}\n")]
    return [event["step"] for event in events if event["event"] == "step"]


def run_and_resume(bin_folder, folder):
    """The run's folder. The run is killed in the middle, after a checkpoint."""
    command = [bin_folder / "pipeline-run", "recorded.toml", "--quiet"]
    run = subprocess.Popen(command, cwd=folder)
    latest = folder / "runs/recorded/latest"
    while run.poll() is None:
        with contextlib.suppress(OSError):
            if (steps_of(latest) or [0])[-1] >= KILLED_AFTER:
                break
        time.sleep(0.01)
    run.kill()
    run.wait()
    expect("the run was killed before its end", run.returncode, -signal.SIGKILL)
    subprocess.run([*command, "--resume", "--trace", "trace.json"], cwd=folder, check=True)
    return latest.resolve()


def check_tensorboard(run, steps):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from tensorboard.backend.event_processing.plugin_event_accumulator import EventAccumulator as Tensors
    from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData

    from tensorboard.backend.event_processing.plugin_event_multiplexer import EventMultiplexer

    folder = run.parent / "tensorboard" / run.name
    seen = list(EventMultiplexer().AddRunsFromDirectory(str(run.parent.parent)).Runs())
    expect("runs at TensorBoard", seen, [f"{run.parent.name}/tensorboard/{run.name}"])
    files = [file.name for file in folder.iterdir() if file.name.startswith("events.out.tfevents.")]
    expect("event files, one of each start", len(files), 2)
    events = EventAccumulator(str(folder), size_guidance={"scalars": 0})
    events.Reload()
    expect("steps at TensorBoard", [event.step for event in events.Scalars("train/loss")], steps)
    for tag in ("learning_rate", "images_per_second", "train/accuracy", "train/epoch_loss", "validate/accuracy"):
        expect(f"TensorBoard has {tag}", tag in events.Tags()["scalars"], True)
    weights = events.Histograms("weights/fc.weight")
    expect("the last histogram of weights", (weights[-1].step, weights[-1].histogram_value.num), (STEPS, 640))
    gradients = events.Histograms("gradient/fc.weight")
    expect("the last histogram of gradients", (gradients[-1].step, gradients[-1].histogram_value.num), (STEPS, 640))
    expect("gradients beside weights", events.Scalars("gradient_to_weights/fc.weight")[-1].value > 0, True)
    sheet = events.Images("first_batches")[0]
    expect("the sheet of the first batches is a picture", sheet.encoded_image_string.startswith(b"\x89PNG") and sheet.width > 0, True)
    tensors = Tensors(str(folder))
    tensors.Reload()
    data = HParamsPluginData.FromString(tensors.PluginTagToContent("hparams")["_hparams_/session_start_info"])
    expect("a hyperparameter", data.session_start_info.hparams["train.batch.size"].number_value, 200)
    text = tensors.Tensors("pipeline")[0].tensor_proto.string_val[0].decode()
    expect("the text of the pipeline", "train.batch.size = 200\n" in text, True)


def check_mlflow(uri, steps):
    from mlflow.tracking import MlflowClient

    client = MlflowClient(uri)
    runs = client.search_runs([client.get_experiment_by_name("records").experiment_id])
    expect("runs at MLflow", len(runs), 1)
    expect("status", runs[0].info.status, "FINISHED")
    expect("a parameter", runs[0].data.params["train.batch.size"], "200")
    history = client.get_metric_history(runs[0].info.run_id, "train/loss")
    expect("steps at MLflow", sorted({each.step for each in history}), steps)  # those made again are there twice
    expect("validation at MLflow", "validate/accuracy" in runs[0].data.metrics, True)


def check_prometheus(run):
    from prometheus_client.parser import text_string_to_metric_families

    families = text_string_to_metric_families((run / "millrace.prom").read_text(encoding="utf-8"))
    samples = {sample.name: sample.value for family in families for sample in family.samples}
    expect("millrace_running", samples["millrace_running"], 0)
    expect("millrace_step", samples["millrace_step"], STEPS)
    expect("counters", samples["millrace_training_seconds_total"] > 0, True)


def nanoseconds(microseconds):
    return round(1000 * microseconds)


def check_trace(path):
    """The rules of Chrome's trace format that readers such as Perfetto's rely on: slices of a thread are nested, and each end of an
    arrow lies in a slice of its thread. Perfetto's trace processor itself is a program that its Python package fetches."""
    events = json.loads(path.read_text(encoding="utf-8"))["traceEvents"]
    expect("kinds of events", {event["ph"] for event in events}, {"M", "X", "s", "t", "f", "C"})
    named = {(event["pid"], event["tid"]) for event in events if event["name"] == "thread_name"}
    slices, flows = {}, {}
    for event in events:
        track = (event["pid"], event.get("tid"))
        if event["ph"] == "X":
            slices.setdefault(track, []).append((nanoseconds(event["ts"]), nanoseconds(event["ts"]) + nanoseconds(event["dur"])))
        elif event["ph"] in "stf":
            flows.setdefault(event["id"], []).append((nanoseconds(event["ts"]), event["ph"], track, event["bp"]))
    expect("tracks without a name", set(slices) - named, set())
    for track, spans in slices.items():
        open_until = []
        for begin, end in sorted(spans, key=lambda span: (span[0], -span[1])):
            while open_until and open_until[-1] <= begin:
                open_until.pop()
            expect(f"a slice of {track} at {begin} ends in the one around it", not open_until or end <= open_until[-1], True)
            open_until.append(end)
    for number, flow in flows.items():
        flow.sort(key=lambda end: (end[0], "stf".index(end[1])))
        expect(f"the ends of flow {number}", "".join(phase for _, phase, _, _ in flow), "s" + "t" * (len(flow) - 2) + "f")
        for at, _, track, binding in flow:
            expect("an arrow binds to the slice around it", binding, "e")
            expect(f"an arrow of {track} at {at} lies in a slice", any(begin <= at <= end for begin, end in slices[track]), True)
    expect("arrows", len(flows) > 0, True)


def check_all(bin_folder, source):
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        subprocess.run([bin_folder / "pipeline-data", "shapes", "data/shapes", "--count", str(STEPS // 2 * 200), "--validation", "20"],
                       cwd=folder, check=True, stdout=subprocess.DEVNULL)
        with mlflow_server(folder) as uri:
            (folder / "recorded.toml").write_text(PIPELINE.format(source=source, uri=uri), encoding="utf-8")
            run = run_and_resume(bin_folder, folder)
            expect("steps that were made again", len(steps_of(run)) > STEPS, True)
            steps = list(range(1, STEPS + 1))
            check_tensorboard(run, steps)
            check_mlflow(uri, steps)
            check_prometheus(run)
            check_trace(folder / "trace.json")
    print("TensorBoard, MLflow and Prometheus read the run")


def main(bin_folder, source):
    python = os.environ.get("MILLRACE_RECORDS")
    if not python:
        print("skipped: MILLRACE_RECORDS is not set; it names a python that has tensorboard, mlflow and prometheus_client")
        return 77
    if os.environ.get("MILLRACE_RECORDS_CHILD"):
        check_all(pathlib.Path(bin_folder).resolve(), pathlib.Path(source).resolve())
        return 0
    return subprocess.run([python, __file__, bin_folder, source], env=dict(os.environ, MILLRACE_RECORDS_CHILD="1"),
                          check=False).returncode


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

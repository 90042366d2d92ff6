# SPDX-License-Identifier: Apache-2.0
"""tensorflow_peer.py export DIRECTORY: writes a small training graph for bench_tensorflow and for `measure`.
tensorflow_peer.py measure DIRECTORY: measures TensorFlow's MonitoredSession with its five hooks, and its bare Session."""
import json
import os
import pathlib
import statistics
import sys
import tempfile
import time

for name, value in {"TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "-1"}.items():
    os.environ.setdefault(name, value)
import tensorflow.compat.v1 as tf  # noqa: E402

tf.disable_v2_behavior()
tf.logging.set_verbosity(tf.logging.ERROR)
ROUNDS, STEPS = 15, 1000


def export(directory):
    """One layer with momentum. The graph contains its input."""
    tf.enable_resource_variables()
    x = tf.reshape(tf.range(24, dtype=tf.float32) / 24, [8, 3])
    w = tf.get_variable("w", [3, 1], initializer=tf.zeros_initializer())
    b = tf.get_variable("b", [1], initializer=tf.zeros_initializer())
    step = tf.train.get_or_create_global_step()
    loss = tf.reduce_mean(tf.square(tf.matmul(x, w) + b - 1.0), name="loss")
    tf.summary.scalar("loss_summary", loss)
    train = tf.train.MomentumOptimizer(0.01, 0.5).minimize(loss, global_step=step)
    tf.group(train, name="train_op")
    with tf.control_dependencies([train]):
        tf.raw_ops.ReadVariableOp(resource=step.handle, dtype=step.dtype, name="step_after")
    scaffold = tf.train.Scaffold()
    scaffold.finalize()
    tf.train.export_meta_graph(str(directory / "graph.meta"))


def per_step(run, op):
    start = time.perf_counter()
    for _ in range(STEPS):
        run(op)
    return (time.perf_counter() - start) / STEPS * 1e6


def measure(directory):
    tf.train.import_meta_graph(str(directory / "graph.meta"))
    graph = tf.get_default_graph()
    loss, train = graph.get_tensor_by_name("loss:0"), graph.get_operation_by_name("train_op")
    logs = tempfile.mkdtemp()
    hooks = [
        tf.train.StopAtStepHook(last_step=1 << 60),
        tf.train.CheckpointSaverHook(logs, save_secs=1e6, saver=tf.train.Saver()),
        tf.train.LoggingTensorHook([loss], every_n_iter=1 << 60),
        tf.train.NanTensorHook(loss),
        tf.train.SummarySaverHook(save_steps=1 << 40, output_dir=logs, summary_op=tf.summary.merge_all()),
    ]
    fetches = [train, loss, graph.get_tensor_by_name("step_after:0")]
    config = tf.ConfigProto(intra_op_parallelism_threads=1, inter_op_parallelism_threads=-1)
    with tf.train.SingularMonitoredSession(hooks=hooks, config=config) as session:
        raw = session.raw_session()
        pairs = [(per_step(raw.run, fetches), per_step(session.run, train)) for _ in range(ROUNDS)]
    for name, value, unit in [
        ("python_session_us", statistics.median(a for a, _ in pairs), "us"),
        ("python_hooked_us", statistics.median(b for _, b in pairs), "us"),
        ("python_hooked_over_bare", statistics.median(b / a for a, b in pairs), "ratio"),
    ]:
        print(json.dumps({"name": name, "value": round(value, 3), "unit": unit}), flush=True)


{"export": export, "measure": measure}[sys.argv[1]](pathlib.Path(sys.argv[2]))

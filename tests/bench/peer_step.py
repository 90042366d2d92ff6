# SPDX-License-Identifier: Apache-2.0
"""TensorFlow's MonitoredSession with the work of bench_step: the time that five hooks, and a hundred that fetch, add to a run."""
import json
import os
import statistics
import tempfile
import time

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import tensorflow.compat.v1 as tf  # noqa: E402

tf.disable_eager_execution()
tf.logging.set_verbosity(tf.logging.ERROR)
ROUNDS, STEPS = 9, 300


class Fetcher(tf.train.SessionRunHook):
    def __init__(self, tensor):
        self.tensor = tensor

    def before_run(self, run_context):
        return tf.train.SessionRunArgs(self.tensor)


def per_step(run, op):
    start = time.perf_counter()
    for _ in range(STEPS):
        run(op)
    return (time.perf_counter() - start) / STEPS * 1e9


def measure(make_hooks):
    with tf.Graph().as_default():
        step = tf.train.get_or_create_global_step()
        train = tf.assign_add(step, 1).op
        loss = tf.constant(1.0, name="loss")
        hooks = make_hooks(loss)
        with tf.train.SingularMonitoredSession(hooks=hooks) as session:
            raw = session.raw_session()
            pairs = [(per_step(raw.run, train), per_step(session.run, train)) for _ in range(ROUNDS)]
    return statistics.median(a for a, _ in pairs), statistics.median(b - a for a, b in pairs)


def five(loss):
    directory = tempfile.mkdtemp()
    summary = tf.summary.scalar("loss", loss)
    return [
        tf.train.StopAtStepHook(last_step=1 << 60),
        tf.train.CheckpointSaverHook(directory, save_secs=1e6, saver=tf.train.Saver()),
        tf.train.LoggingTensorHook([loss], every_n_iter=1 << 60),
        tf.train.NanTensorHook(loss),
        tf.train.SummarySaverHook(save_steps=1 << 40, output_dir=directory, summary_op=summary),
    ]


def show(name, value):
    print(json.dumps({"name": name, "value": round(value, 1), "unit": "ns"}), flush=True)


bare, added = measure(five)
show("tensorflow_bare_run_ns", bare)
show("tensorflow_five_hooks_over_bare_ns", added)
show("tensorflow_100_hooks_over_bare_ns", measure(lambda loss: [Fetcher(loss) for _ in range(100)])[1])

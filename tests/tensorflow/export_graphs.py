#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""export_graphs.py DIRECTORY: small graphs in TensorFlow 1's style, and TensorFlow's own results for them."""
import os
import pathlib
import sys

for name, value in {"TF_CPP_MIN_LOG_LEVEL": "3", "TF_ENABLE_ONEDNN_OPTS": "0", "CUDA_VISIBLE_DEVICES": "-1"}.items():
    os.environ.setdefault(name, value)

import numpy
import tensorflow
from tensorflow.core.protobuf import meta_graph_pb2, saved_model_pb2

tf = tensorflow.compat.v1
tf.disable_v2_behavior()

STEPS = 20


def batch(step):
    """The same numbers as in batch.h, exact in a float."""
    x = numpy.array([[((7 * step + 5 * row + 3 * column) % 16) / 16 for column in range(3)] for row in range(8)], numpy.float32)
    return {"x:0": x, "y:0": x.sum(axis=1, keepdims=True).astype(numpy.float32)}


def linear(use_resource):
    """One layer, trained with momentum; a local variable, summaries, and a global step."""
    tf.enable_resource_variables() if use_resource else tf.disable_resource_variables()
    x = tf.placeholder(tf.float32, [None, 3], "x")
    y = tf.placeholder(tf.float32, [None, 1], "y")
    w = tf.get_variable("layer/w", [3, 1], initializer=tf.constant_initializer([[0.5], [-0.25], [0.125]]))
    b = tf.get_variable("layer/b", [1], initializer=tf.zeros_initializer())
    tf.get_variable("label", initializer=tf.constant(["a", "bc"]), trainable=False)
    tf.get_variable("seen", initializer=tf.constant(7), trainable=False, collections=[tf.GraphKeys.LOCAL_VARIABLES])
    step = tf.train.get_or_create_global_step()
    loss = tf.reduce_mean(tf.square(tf.matmul(x, w) + b - y), name="loss")
    tf.summary.scalar("loss_summary", loss)
    optimizer = tf.train.MomentumOptimizer(0.1, 0.5)
    optimizer.minimize(loss, global_step=step, name="train_op")


def train(directory, name):
    """TensorFlow's losses, and its checkpoint after half of the steps."""
    losses = []
    with tf.Session() as session:
        session.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
        for step in range(STEPS):
            if step == STEPS // 2:
                tf.train.Saver().save(session, str(directory / f"{name}_theirs/model.ckpt"), global_step=step)
            losses.append(session.run(["loss:0", "train_op"], batch(step))[0])
    (directory / f"{name}.losses").write_text("".join(f"{loss!r}\n" for loss in map(float, losses)))


def export_linear(directory, name, use_resource, scaffold):
    with tf.Graph().as_default() as graph:
        linear(use_resource)
        train(directory, name)
    with tf.Graph().as_default() as graph:
        linear(use_resource)
        if scaffold:
            tf.add_to_collection(tf.GraphKeys.SAVERS, tf.train.Saver(max_to_keep=3))
            tf.train.Scaffold().finalize()
        tf.train.export_meta_graph(str(directory / f"{name}.meta"))
        tf.train.export_meta_graph(str(directory / f"{name}.pbtxt"), as_text=True)
        (directory / f"{name}.pb").write_bytes(graph.as_graph_def().SerializeToString())


TYPES = ["float32", "float64", "int32", "uint8", "int16", "int8", "complex64", "int64", "bool", "bfloat16", "uint16", "complex128",
         "float16", "uint32", "uint64", "string"]


def export_types(directory):
    """Feeds and fetches of each type, dynamic shapes, ops with several outputs and without, and ops that keep a feed's memory."""
    tf.enable_resource_variables()
    with tf.Graph().as_default():
        for name in TYPES:
            given = tf.placeholder(tf.as_dtype(name), None, f"in_{name}")
            tf.identity(tf.stack([given, given]) if name != "string" else given, f"out_{name}")
        text = tf.placeholder(tf.string, [None], "text")
        tf.strings.join([text, tf.constant("!")], name="joined")
        tf.strings.join([tf.fill([200], "a long string that is certainly not kept inside")], name="many")
        numbers = tf.placeholder(tf.float32, [None], "numbers")
        tf.boolean_mask(numbers, numbers > 0, name="positive")
        tf.unstack(tf.constant([1, 2, 3]), name="three")
        tf.placeholder(tf.float32, [1] * 9, "deep")
        tf.no_op("nothing")
        tf.constant("", shape=[0], name="none")
        kept = tf.get_variable("kept", initializer=tf.zeros([64]))
        fed = tf.placeholder(tf.float32, [64], "fed")
        tf.raw_ops.AssignVariableOp(resource=kept.handle, value=fed, name="keep")
        tf.matmul(tf.reshape(tf.placeholder(tf.float32, [64], "borrowed"), [1, 64]), tf.ones([64, 1]), name="product")
        tf.identity(tf.get_default_graph().get_tensor_by_name("borrowed:0"), "borrowed_again")
        queue = tf.FIFOQueue(4, tf.float32, shapes=[64], name="queue")
        queue.enqueue(fed, name="enqueue")
        queue.dequeue(name="dequeue")
        queue.close(name="close")
        tf.raw_ops.CheckNumerics(tensor=numbers, message="bad numbers", name="checked")
        tf.train.export_meta_graph(str(directory / "types.meta"))


def export_queue(directory):
    """A graph with a queue runner."""
    tf.enable_resource_variables()
    with tf.Graph().as_default():
        step = tf.train.get_or_create_global_step()
        limited = tf.train.limit_epochs(tf.constant(2.0), num_epochs=5)
        queue = tf.FIFOQueue(2, tf.float32, shapes=[[]], name="input")
        tf.train.add_queue_runner(tf.train.QueueRunner(queue, [queue.enqueue(limited, name="fill")]))
        tf.identity(queue.dequeue(), "taken")
        with tf.control_dependencies(["taken"]):
            tf.group(tf.assign_add(step, 1), name="train_op")
        tf.train.export_meta_graph(str(directory / "queue.meta"))


def after(op, value):
    with tf.control_dependencies([op]):
        return tf.identity(value)


def slow_number(number):
    """Returns `number` after a slow computation."""
    product = tf.ones([500, 500]) / 500
    for _ in range(8):
        product = tf.matmul(product, product + tf.random.uniform([500, 500]) * 0)
    return number + tf.cast(product[0, 0] * 0, tf.int64)


def export_steps(directory, name, use_resource):
    """Every way in which a run may change the global step, or not."""
    tf.enable_resource_variables() if use_resource else tf.disable_resource_variables()
    with tf.Graph().as_default():
        step = tf.train.create_global_step()
        once = tf.assign_add(step, 1)
        with tf.control_dependencies([once]):
            tf.group(tf.assign_add(step, 10), name="both")
        tf.group(tf.assign_add(step, 100), name="apart")
        tf.group(once, name="train_op")
        tf.identity(step.read_value() if use_resource else step, "look")
        with tf.control_dependencies([once]):
            tf.identity(tf.constant(1.0), "trained")
        tf.identity(tf.get_default_graph().get_tensor_by_name("trained:0") * 2, "twice")
        late = tf.placeholder_with_default(tf.constant(True), [], "late")
        tf.cond(late, lambda: tf.assign_add(step, 1000), lambda: tf.identity(step), name="branch")
        tf.group(tf.get_default_graph().get_tensor_by_name("branch/Merge:0"), name="maybe")
        tf.group(tf.while_loop(lambda i: i < 3, lambda i: after(tf.assign_add(step, 1), i + 1), [tf.constant(0)]), name="loop")
        _, there = tf.raw_ops.Switch(data=tf.constant(1.0), pred=late)
        with tf.control_dependencies([tf.identity(there)]):
            tf.group(tf.assign_add(step, 2000), name="perhaps")
        if use_resource:
            tf.group(tensorflow.function(lambda: step.assign_add(5))(), name="called")
            again = tf.raw_ops.VarHandleOp(dtype=tf.int64, shape=[], shared_name="global_step", name="again")
            tf.group(tf.raw_ops.AssignAddVariableOp(resource=again, value=tf.constant(7, tf.int64)), name="other_handle")
            tf.enable_control_flow_v2()
            tf.group(tf.cond(late, lambda: after(tf.assign_add(step, slow_number(3000)), 1), lambda: tf.constant(0)), name="called_maybe")
            tf.disable_control_flow_v2()
        tf.train.export_meta_graph(str(directory / f"{name}.meta"))


def export_cluster(directory, name, use_resource, scaffold):
    """Variables on the parameter server, all other ops on the worker that runs them."""
    with tf.Graph().as_default(), tf.device(tf.train.replica_device_setter(ps_tasks=1, worker_device="/job:worker")):
        linear(use_resource)
        if scaffold:
            tf.train.Scaffold().finalize()
        tf.train.export_meta_graph(str(directory / f"cluster_{name}.meta"))


def export_server(directory):
    cluster = tf.train.ClusterSpec({"alone": ["127.0.0.1:0"]})
    server = tf.train.ServerDef(cluster=cluster.as_cluster_def(), job_name="alone", protocol="grpc")
    (directory / "server_def").write_bytes(server.SerializeToString())
    server.task_index = 3
    (directory / "server_def_of_missing_task").write_bytes(server.SerializeToString())
    server.cluster.job[0].tasks[0] = "somewhere"
    (directory / "server_def_of_nowhere").write_bytes(server.SerializeToString())


def export_damaged(directory):
    whole = (directory / "resource.meta").read_bytes()
    (directory / "cut.meta").write_bytes(whole[: len(whole) // 2])
    (directory / "noise.meta").write_bytes(bytes(range(256)) * 16)
    (directory / "empty.meta").write_bytes(b"")
    (directory / "words.meta").write_text("these are words\n")
    (directory / "wrong.pbtxt").write_text('node { name: "a" op: "NoOp" color: "red" }\n')
    (directory / "unknown_op.pbtxt").write_text('node { name: "a" op: "NoSuchOp" }\n')
    meta = meta_graph_pb2.MetaGraphDef.FromString(whole)
    meta.collection_def["variables"].bytes_list.value[0] = b"\xff\xff\xff"
    (directory / "bad_variable.meta").write_bytes(meta.SerializeToString())
    saved = saved_model_pb2.SavedModel(saved_model_schema_version=1, meta_graphs=[meta_graph_pb2.MetaGraphDef.FromString(whole)])
    (directory / "saved_model.pb").write_bytes(saved.SerializeToString())


def main(directory):
    directory.mkdir(parents=True, exist_ok=True)
    export_linear(directory, "ref", use_resource=False, scaffold=False)
    export_linear(directory, "resource", use_resource=True, scaffold=True)
    export_types(directory)
    export_queue(directory)
    export_steps(directory, "ref_steps", use_resource=False)
    export_steps(directory, "resource_steps", use_resource=True)
    export_cluster(directory, "ref", use_resource=False, scaffold=False)
    export_cluster(directory, "resource", use_resource=True, scaffold=True)
    export_server(directory)
    export_damaged(directory)


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""export_inputs.py DIRECTORY: graphs that read their own input, through queues, readers, iterators and tables."""
import os
import pathlib
import sys

for name, value in {"TF_CPP_MIN_LOG_LEVEL": "3", "TF_ENABLE_ONEDNN_OPTS": "0", "CUDA_VISIBLE_DEVICES": "-1"}.items():
    os.environ.setdefault(name, value)

import tensorflow
from tensorflow.core.protobuf import queue_runner_pb2

tf = tensorflow.compat.v1
tf.disable_v2_behavior()


def count(value):
    """A training op that adds its inputs to a variable that is saved."""
    total = tf.get_variable("total", initializer=0.0)
    step = tf.train.get_or_create_global_step()
    added = tf.assign_add(total, tf.cast(tf.reduce_sum(value), tf.float32), name="add")
    with tf.control_dependencies([added]):
        tf.group(tf.assign_add(step, 1), name="train_op")


def export(directory, name, build):
    with tf.Graph().as_default():
        build(directory)
        tf.train.export_meta_graph(str(directory / f"{name}.meta"))


def reader(directory):
    """TensorFlow 1's input: files, each twice, through a reader and two threads into batches. 2 * (1 + ... + 10) in all."""
    files = [str(directory / f"numbers-{i}.txt") for i in range(2)]
    names = tf.train.string_input_producer(files, num_epochs=2, shuffle=False)
    _, line = tf.TextLineReader().read(names)
    count(tf.train.batch([tf.string_to_number(line)], batch_size=3, num_threads=2, allow_smaller_final_batch=True))


def several(directory):
    """Three enqueue ops of one runner: two end by their limits, the third by an error that means the same to this runner."""
    queue = tf.FIFOQueue(2, tf.float32, shapes=[[]], name="input")
    ops = [queue.enqueue(tf.train.limit_epochs(tf.constant(value), num_epochs=epochs), name=f"fill_{epochs}")
           for value, epochs in ((1.0, 3), (10.0, 4))]
    numbers = tf.constant([1.0, float("nan")])
    at = tf.get_variable("at", initializer=0, collections=[tf.GraphKeys.LOCAL_VARIABLES], trainable=False)
    checked = tf.check_numerics(tf.gather(numbers, tf.assign_add(at, 1) - 1), "the end")
    ops.append(queue.enqueue(100 * checked, name="fill_checked"))
    closed = (tf.errors.OutOfRangeError, tf.errors.InvalidArgumentError)
    tf.train.add_queue_runner(tf.train.QueueRunner(queue, ops, queue_closed_exception_types=closed))
    count(queue.dequeue())


def endless(directory):
    """A runner that never ends: its queue is full, and it waits."""
    queue = tf.FIFOQueue(2, tf.float32, shapes=[[]], name="input")
    tf.train.add_queue_runner(tf.train.QueueRunner(queue, [queue.enqueue(1.0)] * 3))
    count(queue.dequeue())


def starving(directory):
    """A runner that waits for another queue, which only the program fills."""
    source = tf.FIFOQueue(2, tf.float32, shapes=[[]], name="source")
    queue = tf.FIFOQueue(2, tf.float32, shapes=[[]], name="input")
    tf.train.add_queue_runner(tf.train.QueueRunner(queue, [queue.enqueue(source.dequeue())]))
    source.enqueue(tf.placeholder(tf.float32, [], "given"), name="give")
    count(queue.dequeue())


def full(directory):
    """A runner whose queue is full, and a queue that only the program fills."""
    queue = tf.FIFOQueue(1, tf.float32, shapes=[[]], name="full")
    tf.train.add_queue_runner(tf.train.QueueRunner(queue, [queue.enqueue(1.0)] * 2))
    alone(tf.FIFOQueue)(directory)


def alone(kind):
    """A queue that only the program fills."""
    def build(directory):
        tf.disable_resource_variables() if kind is tf.PriorityQueue else tf.enable_resource_variables()
        given = tf.placeholder(tf.float32, [], "given")
        if kind is tf.PriorityQueue:
            queue = kind(2, tf.float32, shapes=[[]], name="input")
            queue.enqueue([tf.constant(1, tf.int64), given], name="give")
            count(queue.dequeue()[1])
        elif kind is tf.RandomShuffleQueue:
            queue = kind(4, 0, tf.float32, shapes=[[]], name="input")
            queue.enqueue(given, name="give")
            count(queue.dequeue())
        else:
            queue = kind(2, tf.float32, shapes=[[]], name="input")
            queue.enqueue(given, name="give")
            count(queue.dequeue())
        tf.enable_resource_variables()
    return build


def old_queue(directory):
    """A queue that is a reference, as before resources."""
    given = tf.placeholder(tf.float32, [], "given")
    queue = tf.raw_ops.FIFOQueue(component_types=[tf.float32], shapes=[[]], capacity=2, name="input")
    tf.raw_ops.QueueEnqueue(handle=queue, components=[given], name="give")
    count(tf.raw_ops.QueueDequeue(handle=queue, component_types=[tf.float32])[0])


def barrier(directory):
    given = tf.placeholder(tf.float32, [], "given")
    handle = tf.raw_ops.Barrier(component_types=[tf.float32], shapes=[[]], name="input")
    tf.raw_ops.BarrierInsertMany(handle=handle, keys=["a"], values=[given], component_index=0, name="give")
    _, _, values = tf.raw_ops.BarrierTakeMany(handle=handle, num_elements=1, component_types=[tf.float32])
    count(values[0])


def iterator(directory):
    """tf.data with an initializer among those of the tables, and a table that turns words into numbers."""
    words = tf.data.Dataset.from_tensor_slices(["one", "two", "three", "two"]).repeat(2)
    it = tf.data.make_initializable_iterator(words, shared_name="words")
    tf.add_to_collection(tf.GraphKeys.TABLE_INITIALIZERS, it.initializer)
    tf.add_to_collection(tf.GraphKeys.SAVEABLE_OBJECTS, tf.data.experimental.make_saveable_from_iterator(it))
    keys = tf.constant(["one", "two", "three"])
    init = tf.lookup.KeyValueTensorInitializer(keys, tf.constant([1, 2, 3], tf.int64))
    count(tf.lookup.StaticHashTable(init, -1).lookup(it.get_next()))


def one_shot(directory):
    count(tf.data.make_one_shot_iterator(tf.data.Dataset.range(5).map(lambda x: x + 1)).get_next())


def waiting_iterator(directory):
    """An iterator that never finds an element."""
    never = tf.data.Dataset.range(1).repeat().filter(lambda x: x > 5)
    count(tf.data.make_one_shot_iterator(never).get_next())


def damaged(directory):
    """Invalid runners."""
    for name, change in {"no_ops": lambda d: d.ClearField("enqueue_op_name"), "no_such_op": lambda d: d.enqueue_op_name.append("gone"),
                         "no_close": lambda d: d.ClearField("close_op_name"),
                         "strange_codes": lambda d: d.queue_closed_exception_types.extend([0, 3])}.items():
        with tf.Graph().as_default():
            endless(directory)
            meta = tf.train.export_meta_graph()
            runners = meta.collection_def["queue_runners"].bytes_list
            runner = queue_runner_pb2.QueueRunnerDef.FromString(runners.value[0])
            change(runner)
            runners.value[0] = runner.SerializeToString()
            (directory / f"runner_{name}.meta").write_bytes(meta.SerializeToString())


def main(directory):
    directory.mkdir(parents=True, exist_ok=True)
    tf.enable_resource_variables()
    for i in range(2):
        (directory / f"numbers-{i}.txt").write_text("".join(f"{n}\n" for n in range(5 * i + 1, 5 * i + 6)))
    kinds = {"fifo": tf.FIFOQueue, "padding": tf.PaddingFIFOQueue, "priority": tf.PriorityQueue, "shuffle": tf.RandomShuffleQueue}
    for name, kind in kinds.items():
        export(directory, f"alone_{name}", alone(kind))
    for build in reader, several, endless, starving, full, barrier, iterator, one_shot, waiting_iterator:
        export(directory, build.__name__, build)
    export(directory, "alone_old", old_queue)
    damaged(directory)


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))

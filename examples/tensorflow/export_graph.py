#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the network's graph, with all that trains it, to a file that train_graph reads. --help says what can be chosen."""
import argparse
import pathlib

from model import CLASSES, DATA, SIDE, accuracy, files, scores, tf

IMAGE_HEADER, LABEL_HEADER = 16, 8  # bytes in the data set's files before the first picture and the first label


def placeholders():
    """The batch is fed: the pictures as rows of numbers from 0 to 1."""
    return tf.placeholder(tf.float32, [None, SIDE * SIDE], "images"), tf.placeholder(tf.int64, [None], "labels")


def records(file, header, size, epochs):
    """One picture or label after the other, as bytes. Nothing is shuffled here: both files must stay in step."""
    names = tf.train.string_input_producer([file], num_epochs=epochs, shuffle=False)
    reader = tf.FixedLengthRecordReader(record_bytes=size, header_bytes=header, encoding="GZIP")
    _, record = reader.read(names)
    return tf.reshape(tf.decode_raw(record, tf.uint8), [size])


def queues(options):
    """The graph reads the files by itself. One thread, as picture and label are taken in two steps."""
    images, labels = files(options.data.resolve(), "train")
    image = tf.cast(records(images, IMAGE_HEADER, SIDE * SIDE, options.epochs), tf.float32) * (1 / 255)
    label = tf.cast(records(labels, LABEL_HEADER, 1, options.epochs)[0], tf.int64)
    return tf.train.shuffle_batch([image, label], options.batch_size, capacity=options.capacity, num_threads=1,
                                  min_after_dequeue=options.capacity // 2, seed=options.seed,
                                  allow_smaller_final_batch=True)


def train(options):
    """The network, its loss, what moves it, and what TensorBoard is shown."""
    images, labels = placeholders() if options.input == "feed" else queues(options)
    step = tf.train.get_or_create_global_step()
    logits = scores(images, training=True)
    loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits), name="loss")
    tf.summary.scalar("training_loss", loss)
    tf.summary.scalar("training_accuracy", accuracy(logits, labels))
    tf.summary.histogram("scores", logits)
    with tf.control_dependencies(tf.get_collection(tf.GraphKeys.UPDATE_OPS)):
        tf.train.AdamOptimizer(options.learning_rate).minimize(loss, global_step=step, name="train_op")


def export(options):
    """The graph, complete: with the ops that a session starts with, and a saver."""
    tf.disable_resource_variables() if options.ref_variables else tf.enable_resource_variables()
    devices = tf.train.replica_device_setter(options.parameter_servers, worker_device="")
    with tf.Graph().as_default(), tf.device(devices):
        tf.set_random_seed(options.seed)
        train(options)
        saver = tf.train.Saver(max_to_keep=5)
        tf.add_to_collection(tf.GraphKeys.SAVERS, saver)
        tf.train.Scaffold().finalize()
        saver.export_meta_graph(str(options.file), as_text=options.file.suffix == ".pbtxt")


def parse(arguments=None):
    parser = argparse.ArgumentParser(description="Writes a network for Fashion-MNIST, with all that trains it, to a file.")
    add = parser.add_argument
    add("file", type=pathlib.Path, help="the meta graph to write; .pbtxt: as text")
    add("--input", choices=["feed", "queue"], default="feed",
        help="feed: the batch comes from outside, to images and labels; queue: the graph reads the data set by itself (%(default)s)")
    add("--data", type=pathlib.Path, default=DATA, help="queue: where the data set is (%(default)s)")
    add("--epochs", type=int, help="queue: how often to go through the data (forever)")
    add("--batch-size", type=int, default=128, help="queue: pictures a step (%(default)s)")
    add("--capacity", type=int, default=4096, help="queue: pictures to draw from (%(default)s)")
    add("--learning-rate", type=float, default=1e-3, help="(%(default)s)")
    add("--seed", type=int, default=1, help="makes the first weights and the order of the queue (%(default)s)")
    add("--parameter-servers", type=int, default=0, help="tasks of the job ps that keep the variables (%(default)s)")
    add("--ref-variables", action="store_true", help="variables of the kind that TensorFlow had first")
    return parser.parse_args(arguments)


def main():
    options = parse()
    if options.epochs and options.parameter_servers:
        raise SystemExit("export_graph.py: --epochs is counted by each worker, in a variable that parameter servers would share: "
                         "give one of the two")
    if options.input == "queue":
        for file in files(options.data, "train"):
            if not pathlib.Path(file).exists():
                raise SystemExit(f"export_graph.py: {file} is missing; install Debian's package dataset-fashion-mnist, or name "
                                 "the folder that has the data with --data")
    options.file.parent.mkdir(parents=True, exist_ok=True)
    export(options)


if __name__ == "__main__":
    main()

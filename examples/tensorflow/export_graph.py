#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the network's training graph to a file that train_graph reads. --help lists the options."""
import argparse
import pathlib

from model import CLASSES, DATA, SIDE, accuracy, files, scores, tf

IMAGE_HEADER, LABEL_HEADER = 16, 8  # bytes in the data set's files before the first picture and the first label


def placeholders():
    """Placeholders for a batch: each picture is a row of numbers from 0 to 1."""
    return tf.placeholder(tf.float32, [None, SIDE * SIDE], "images"), tf.placeholder(tf.int64, [None], "labels")


def records(file, header, size, epochs):
    """The next picture or label, as bytes. Not shuffled, so that pictures and labels match."""
    names = tf.train.string_input_producer([file], num_epochs=epochs, shuffle=False)
    reader = tf.FixedLengthRecordReader(record_bytes=size, header_bytes=header, encoding="GZIP")
    _, record = reader.read(names)
    return tf.reshape(tf.decode_raw(record, tf.uint8), [size])


def queues(options):
    """The graph reads the files. One thread only: a picture and its label are read in two operations, which must not interleave."""
    images, labels = files(options.data.resolve(), "train")
    image = tf.cast(records(images, IMAGE_HEADER, SIDE * SIDE, options.epochs), tf.float32) * (1 / 255)
    label = tf.cast(records(labels, LABEL_HEADER, 1, options.epochs)[0], tf.int64)
    return tf.train.shuffle_batch([image, label], options.batch_size, capacity=options.capacity, num_threads=1,
                                  min_after_dequeue=options.capacity // 2, seed=options.seed,
                                  allow_smaller_final_batch=True)


def train(options):
    """Builds the network, its loss, its optimizer, and the summaries for TensorBoard."""
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
    """Writes the complete graph: with init ops and a saver."""
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
    parser = argparse.ArgumentParser(description="Writes a training graph for Fashion-MNIST to a file.")
    add = parser.add_argument
    add("file", type=pathlib.Path, help="the meta graph to write; .pbtxt: as text")
    add("--input", choices=["feed", "queue"], default="feed",
        help="feed: the placeholders images and labels are fed; queue: the graph reads the data set itself (%(default)s)")
    add("--data", type=pathlib.Path, default=DATA, help="queue: directory of the data set (%(default)s)")
    add("--epochs", type=int, help="queue: passes through the data (no limit)")
    add("--batch-size", type=int, default=128, help="queue: pictures per step (%(default)s)")
    add("--capacity", type=int, default=4096, help="queue: pictures in the shuffling queue (%(default)s)")
    add("--learning-rate", type=float, default=1e-3, help="(%(default)s)")
    add("--seed", type=int, default=1, help="seed for the initial weights and the order of the queue (%(default)s)")
    add("--parameter-servers", type=int, default=0, help="tasks of the job ps, which store the variables (%(default)s)")
    add("--ref-variables", action="store_true", help="reference variables instead of resource variables")
    return parser.parse_args(arguments)


def main():
    options = parse()
    if options.epochs and options.parameter_servers:
        raise SystemExit("export_graph.py: --epochs and --parameter-servers exclude each other: workers would share the counter of epochs")
    if options.input == "queue":
        for file in files(options.data, "train"):
            if not pathlib.Path(file).exists():
                raise SystemExit(f"export_graph.py: {file} is missing; install Debian's package dataset-fashion-mnist, or name "
                                 "the folder that has the data with --data")
    options.file.parent.mkdir(parents=True, exist_ok=True)
    export(options)


if __name__ == "__main__":
    main()

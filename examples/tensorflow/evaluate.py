#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""evaluate.py MODEL_DIR [DATA]: prints the accuracy of the newest checkpoint on the test pictures. TensorFlow's Saver reads the
checkpoint of train_graph."""
import gzip
import pathlib
import sys

import numpy

from model import DATA, SIDE, accuracy, files, scores, tf


def test_set(data):
    images, labels = (numpy.frombuffer(gzip.open(file).read(), numpy.uint8) for file in files(data, "t10k"))
    return images[16:].reshape(-1, SIDE * SIDE).astype(numpy.float32) / 255, labels[8:].astype(numpy.int64)


def main(model_dir, data=DATA):
    images, labels = test_set(pathlib.Path(data))
    checkpoint = tf.train.latest_checkpoint(model_dir)
    if not checkpoint:
        raise SystemExit(f"evaluate.py: no checkpoint in {model_dir}")
    result = accuracy(scores(tf.constant(images), training=False), tf.constant(labels))
    with tf.Session() as session:
        tf.train.Saver().restore(session, checkpoint)
        print(f"{pathlib.Path(checkpoint).name}: test accuracy {session.run(result):.4f}")


if __name__ == "__main__":
    main(*sys.argv[1:])

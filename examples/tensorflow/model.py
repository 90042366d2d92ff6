# SPDX-License-Identifier: Apache-2.0
"""A small convolutional network for Fashion-MNIST in TensorFlow 1's style, and the paths of the data set."""
import logging
import os
import pathlib

for name, value in {"TF_CPP_MIN_LOG_LEVEL": "3", "TF_ENABLE_ONEDNN_OPTS": "0", "CUDA_VISIBLE_DEVICES": "-1"}.items():
    os.environ.setdefault(name, value)

import tensorflow  # after the environment is set

tensorflow.get_logger().setLevel(logging.ERROR)
tf = tensorflow.compat.v1
tf.disable_v2_behavior()

DATA = pathlib.Path("/usr/share/datasets/fashion-mnist")
SIDE, CLASSES = 28, 10
MOMENTUM, EPSILON = 0.9, 1e-3


def files(data, part):
    """The files of pictures and of labels. Each is gzip'd: a header, then one record of fixed size per picture or label."""
    return str(data / f"{part}-images-idx3-ubyte.gz"), str(data / f"{part}-labels-idx1-ubyte.gz")


def normalized(x, training):
    """Batch normalization. Ops in the collection UPDATE_OPS update the moving averages, which are used if not `training`."""
    channels = x.shape[-1]
    scale = tf.get_variable("gamma", [channels], initializer=tf.ones_initializer())
    offset = tf.get_variable("beta", [channels], initializer=tf.zeros_initializer())
    moving = [tf.get_variable(name, [channels], initializer=start(), trainable=False)
              for name, start in (("moving_mean", tf.zeros_initializer), ("moving_variance", tf.ones_initializer))]
    if not training:
        return tf.nn.fused_batch_norm(x, scale, offset, *moving, epsilon=EPSILON, is_training=False)[0]
    y, *batch = tf.nn.fused_batch_norm(x, scale, offset, epsilon=EPSILON)
    for average, value in zip(moving, batch):
        tf.add_to_collection(tf.GraphKeys.UPDATE_OPS, tf.assign_sub(average, (1 - MOMENTUM) * (average - value)))
    return y


def convolution(x, filters, name, training):
    with tf.variable_scope(name):
        kernel = tf.get_variable("kernel", [3, 3, x.shape[-1], filters])
        x = tf.nn.conv2d(x, kernel, strides=1, padding="SAME")
        return tf.nn.max_pool2d(tf.nn.relu(normalized(x, training)), 2, 2, "SAME")


def dense(x, width, name):
    with tf.variable_scope(name):
        kernel = tf.get_variable("kernel", [x.shape[-1], width])
        return tf.matmul(x, kernel) + tf.get_variable("bias", [width], initializer=tf.zeros_initializer())


def scores(images, training):
    """The scores of each class. `images` has one row of numbers from 0 to 1 per picture."""
    x = tf.reshape(images, [-1, SIDE, SIDE, 1])
    x = convolution(x, 16, "conv1", training)
    x = convolution(x, 32, "conv2", training)
    x = tf.reshape(x, [-1, 7 * 7 * 32])
    return dense(tf.nn.relu(dense(x, 64, "dense1")), CLASSES, "dense2")


def accuracy(logits, labels):
    return tf.reduce_mean(tf.cast(tf.equal(tf.argmax(logits, 1), labels), tf.float32), name="accuracy")

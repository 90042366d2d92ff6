#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""export_checkpoints.py DIRECTORY: graphs whose variables are of all kinds, with TensorFlow's own checkpoints of them."""
import os
import pathlib
import sys

for name, value in {"TF_CPP_MIN_LOG_LEVEL": "3", "TF_ENABLE_ONEDNN_OPTS": "0", "CUDA_VISIBLE_DEVICES": "-1"}.items():
    os.environ.setdefault(name, value)

import numpy
import tensorflow
from google.protobuf import text_format
from tensorflow.core.framework import variable_pb2
from tensorflow.core.protobuf import meta_graph_pb2, saver_pb2
from tensorflow.python.framework import dtypes

tf = tensorflow.compat.v1
tf.disable_v2_behavior()

TYPES = ["float32", "float64", "float16", "bfloat16", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
         "bool", "complex64", "complex128"]
STEP = 3  # of the checkpoints that TensorFlow writes
TWO_CPUS = tf.ConfigProto(device_count={"CPU": 2})


def initial(name):
    """Values that are exact in every type."""
    if name == "bool":
        return numpy.array([[True, False, True], [False, False, True]])
    return numpy.arange(6).reshape(2, 3).astype(tf.as_dtype(name).as_numpy_dtype)


def variable(name, value, **options):
    return tf.get_variable(name, initializer=tf.constant(value), **options)


def partitioned(name, values, axis, parts):
    """A variable in `parts` parts along an axis. None: not partitioned."""
    shape, values = list(values.shape), tf.constant(values)
    offsets = [0] * len(shape)

    def initializer(part_shape, dtype=None, partition_info=None):
        begin = partition_info.var_offset if partition_info else offsets
        return tf.slice(values, begin, part_shape)

    cut = tf.fixed_size_partitioner(parts, axis=axis) if parts else None
    return tf.get_variable(name, shape, values.dtype, initializer, partitioner=cut)


def numbers(shape, start):
    return numpy.arange(start, start + shape[0] * shape[1], dtype=numpy.float32).reshape(shape)


def kinds(use_resource, parts=3, second="/cpu:0"):
    """Variables of all types, ranks and forms. A training op counts the step, and changes one of each form."""
    tf.enable_resource_variables() if use_resource else tf.disable_resource_variables()
    for name in TYPES:
        variable(f"of_{name}", initial(name))
    variable("text", numpy.array([b"a", b"", "gr\u00fc\u00df dich".encode(), b"x" * 300], dtype=object))
    variable("word", b"one")
    scalar = variable("scalar", numpy.float32(0.5))
    variable("nothing", numpy.zeros([0, 3], numpy.float32))
    with tf.device(second):
        elsewhere = variable("elsewhere", numpy.float32([1, 2]))
        rows = partitioned("rows", numbers([7, 4], 100), 0, parts)
    columns = partitioned("columns", numbers([4, 6], 200), 1, parts)
    step = tf.train.get_or_create_global_step()
    changes = [tf.assign_add(v, tf.ones_like(v)) for v in [scalar, elsewhere, *parts_of(rows), *parts_of(columns)]]
    with tf.control_dependencies(changes):
        tf.group(tf.assign_add(step, 1), name="train_op")


WORDS = [b"a", b"bc", b"", b"x" * 200]


def words(parts=2):
    """A partitioned variable of strings. TensorFlow restores only the slices that it saved."""
    tf.enable_resource_variables()
    partitioned("words", numpy.array(WORDS, dtype=object), 0, parts)
    tf.group(tf.assign_add(tf.train.get_or_create_global_step(), 1), name="train_op")


def parts_of(value):
    return list(value) if hasattr(value, "_get_variable_list") else [value]


def run(directory, name, saver):
    """Trains a few steps, and saves with TensorFlow's Saver."""
    (directory / f"{name}_theirs").mkdir(exist_ok=True)
    with tf.Session(config=TWO_CPUS) as session:
        session.run(tf.global_variables_initializer())
        for _ in range(STEP):
            session.run("train_op")
        saver.save(session, str(directory / f"{name}_theirs/model.ckpt"), global_step=STEP)


def export(directory, name, model, sharded=False):
    def build():
        model()
        saver = tf.train.Saver(sharded=sharded)
        tf.add_to_collection(tf.GraphKeys.SAVERS, saver)
        return saver

    with tf.Graph().as_default():
        run(directory, name, build())
    with tf.Graph().as_default():
        saver = build()
        tf.add_to_collection("mine", "some bytes of mine")
        tf.add_to_collection("losses", tf.zeros([], name="loss"))
        meta = tf.train.export_meta_graph(str(directory / f"{name}.meta"), saver_def=saver.as_saver_def())
    return meta


def export_graph(directory, name, model):
    """The graph without collections."""
    with tf.Graph().as_default() as graph:
        model()
        (directory / f"{name}.meta").write_bytes(graph.as_graph_def().SerializeToString())


def export_changed(directory, meta):
    """The same graph with another SaverDef."""

    def write(name, change):
        changed = meta_graph_pb2.MetaGraphDef.FromString(meta.SerializeToString())
        change(changed)
        (directory / f"{name}.meta").write_bytes(changed.SerializeToString())

    def without_savers(changed):
        changed.ClearField("saver_def")
        del changed.collection_def[tf.GraphKeys.SAVERS]

    def saver(change):
        def apply(changed):
            del changed.collection_def[tf.GraphKeys.SAVERS]
            change(changed.saver_def)

        return apply

    def first_format(saver_def):
        saver_def.version = saver_pb2.SaverDef.V1

    def outside(changed):
        variables = changed.collection_def["variables"].bytes_list.value
        for i, data in enumerate(variables):
            definition = variable_pb2.VariableDef.FromString(data)
            if definition.HasField("save_slice_info_def"):
                definition.save_slice_info_def.var_offset[0] += 1000
                variables[i] = definition.SerializeToString()

    def with_signature(changed):
        changed.signature_def["serve"].method_name = "predict"
        changed.meta_info_def.tags.append("train")

    write("no_saver", without_savers)
    write("first_format", saver(first_format))
    write("no_filename", saver(lambda saver_def: saver_def.ClearField("filename_tensor_name")))
    write("no_save", saver(lambda saver_def: saver_def.ClearField("save_tensor_name")))
    write("no_restore", saver(lambda saver_def: saver_def.ClearField("restore_op_name")))
    write("wrong_save", saver(lambda saver_def: setattr(saver_def, "save_tensor_name", "save/Const:0")))
    write("outside", outside)
    write("signature", with_signature)
    text = meta_graph_pb2.MetaGraphDef.FromString((directory / "signature.meta").read_bytes())
    signature, asset = text.signature_def["serve"], text.asset_file_def.add(filename="words.txt")
    signature.inputs["scalar"].name = "scalar:0"
    signature.inputs["scalar"].tensor_shape.dim.add(size=-1)
    signature.outputs["sparse"].coo_sparse.values_tensor_name = "scalar:0"
    asset.tensor_info.name, asset.tensor_info.dtype = "word:0", tf.string.as_datatype_enum
    (directory / "signature_text.meta").write_text(text_format.MessageToString(text))


def export_small_floats(directory):
    """Variables of a type that hs_dtype lacks, without an op that initializes them all, and TensorFlow's Saver of them."""
    with tf.Graph().as_default():
        tf.enable_resource_variables()
        for name, collection in ("small_floats", tf.GraphKeys.GLOBAL_VARIABLES), ("small_floats_local", tf.GraphKeys.LOCAL_VARIABLES):
            value = variable(name, numpy.float32([1, 2]).astype(dtypes.float8_e5m2.as_numpy_dtype), collections=[collection])
            number = tf.cast(value, tf.float32)
            tf.reduce_sum(number, name=f"{name}/sum")
            tf.group(tf.assign(value, tf.cast(2 * number, value.dtype)), name=f"{name}/double")
        tf.group(tf.assign_add(tf.train.get_or_create_global_step(), 1), name="train_op")
        tf.train.export_meta_graph(str(directory / "small_floats.meta"), saver_def=tf.train.Saver().saver_def)


def export_huge(directory):
    """Variables that are larger than any memory."""
    with tf.Graph().as_default() as graph:
        for name in "huge", "huger":
            handle = tf.raw_ops.VarHandleOp(dtype=tf.float64, shape=[1 << 61], shared_name=name, name=name)
            tf.raw_ops.ReadVariableOp(resource=handle, dtype=tf.float64, name=f"{name}/Read")
        (directory / "huge.meta").write_bytes(graph.as_graph_def().SerializeToString())


def export_table(directory):
    """A loss that depends on a table, which only the graph's own ops save and restore."""
    tf.enable_resource_variables()
    with tf.Graph().as_default():
        counts = tensorflow.lookup.experimental.MutableHashTable(tf.int64, tf.float32, 0.0, name="counts")
        seen = counts.lookup(tf.constant(7, tf.int64))
        with tf.control_dependencies([seen]):
            counted = counts.insert(tf.constant([7], tf.int64), tf.reshape(seen + 1, [1]))
        loss = tf.square(tf.get_variable("w", initializer=0.0) - seen, name="loss")
        with tf.control_dependencies([counted]):
            tf.train.GradientDescentOptimizer(0.1).minimize(loss, tf.train.get_or_create_global_step(), name="train_op")
        saver = tf.train.Saver()
        tf.add_to_collection(tf.GraphKeys.SAVERS, saver)
        tf.train.export_meta_graph(str(directory / "table.meta"), saver_def=saver.saver_def)


def export_failing_restore(directory):
    """A restore op that fails with InvalidArgument after it has set a variable."""
    with tf.Graph().as_default() as graph:
        variable("scalar", numpy.float32(0.5))
        tf.group(tf.assign_add(tf.train.get_or_create_global_step(), 1), name="train_op")
        saver_def = tf.train.Saver().as_saver_def()
        with tf.control_dependencies([graph.get_operation_by_name(saver_def.restore_op_name)]):
            saver_def.restore_op_name = tf.check_numerics(tf.constant(numpy.nan), "refused", name="fails").op.name
        tf.train.export_meta_graph(str(directory / "failing_restore.meta"), saver_def=saver_def)


def main(directory):
    directory.mkdir(parents=True, exist_ok=True)
    meta = export(directory, "kinds_resource", lambda: kinds(True))
    export(directory, "kinds_ref", lambda: kinds(False))
    export(directory, "kinds_two", lambda: kinds(True, parts=2))
    export(directory, "kinds_whole", lambda: kinds(False, parts=None))
    export(directory, "kinds_sharded", lambda: kinds(True, second="/cpu:1"), sharded=True)
    export(directory, "words_parts", words)
    export(directory, "words_others", lambda: words(4))
    export_graph(directory, "graph_resource", lambda: kinds(True, parts=None))
    export_graph(directory, "graph_ref", lambda: kinds(False, parts=None))
    export_changed(directory, meta)
    export_small_floats(directory)
    export_huge(directory)
    export_table(directory)
    export_failing_restore(directory)


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))

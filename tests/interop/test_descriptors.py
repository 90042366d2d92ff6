# SPDX-License-Identifier: Apache-2.0
"""The messages of the files are TensorFlow's: names, numbers, types and labels of all their fields, values of all enums."""
import importlib
import shutil
import subprocess
import unittest

from google.protobuf import descriptor_pb2, descriptor_pool

import support

WIRE = support.SOURCE / "src/base/wire"
PACKAGE = ".hs.pb."
TENSORFLOW = ".tensorflow."

# The modules with the compared messages: importing them registers the messages.
for module in ("core.framework.attr_value_pb2", "core.framework.graph_pb2", "core.framework.step_stats_pb2",
               "core.framework.summary_pb2", "core.framework.tensor_slice_pb2", "core.framework.types_pb2", "core.framework.variable_pb2",
               "core.protobuf.config_pb2", "core.protobuf.meta_graph_pb2", "core.protobuf.queue_runner_pb2", "core.protobuf.saver_pb2",
               "core.protobuf.tensor_bundle_pb2", "core.protobuf.tensorflow_server_pb2", "core.util.event_pb2",
               "python.training.checkpoint_state_pb2"):
    importlib.import_module("tensorflow." + module)

Field = descriptor_pb2.FieldDescriptorProto

# Messages that are stored serialized: a bytes field is the same on the wire.
SERIALIZED = {"Event.summary"}


def messages_of(parent, prefix):
    for message in parent:
        yield prefix + message.name, message
        yield from messages_of(message.nested_type, prefix + message.name + ".")


def enums_of(file):
    yield from ((enum.name, enum) for enum in file.enum_type)
    for name, message in messages_of(file.message_type, ""):
        yield from ((f"{name}.{enum.name}", enum) for enum in message.enum_type)


def theirs(name):
    """TensorFlow's message or enum of that name, as a descriptor's own message."""
    pool = descriptor_pool.Default()
    try:
        found, proto = pool.FindMessageTypeByName("tensorflow." + name), descriptor_pb2.DescriptorProto()
    except KeyError:
        found, proto = pool.FindEnumTypeByName("tensorflow." + name), descriptor_pb2.EnumDescriptorProto()
    found.CopyToProto(proto)
    return proto


def facts(field):
    """The properties of a field, from either of the definitions."""
    type_name = field.type_name
    for package in (PACKAGE, TENSORFLOW):
        if type_name.startswith(package):
            type_name = type_name[len(package):]
    return {"number": field.number, "type": field.type, "of": type_name, "label": field.label,
            "one of several": field.HasField("oneof_index")}


@unittest.skipUnless(shutil.which("protoc"), "needs protoc")
class Descriptors(support.TestCase):
    def setUp(self):
        super().setUp()
        out = self.path("wire.desc")
        protos = sorted(map(str, WIRE.glob("*.proto")))
        subprocess.run(["protoc", f"-I{WIRE}", f"--descriptor_set_out={out}", *protos], check=True)
        files = descriptor_pb2.FileDescriptorSet()
        with open(out, "rb") as stream:
            files.ParseFromString(stream.read())
        self.messages = {name: message for file in files.file for name, message in messages_of(file.message_type, "")}
        self.enums = {name: enum for file in files.file for name, enum in enums_of(file)}

    def test_tb_046s_every_field_is_tensorflows(self):
        for name, message in self.messages.items():
            known = theirs(name)
            fields = {field.name: facts(field) for field in known.field}
            for field in message.field:
                ours = facts(field)
                if f"{name}.{field.name}" in SERIALIZED:
                    ours["type"], ours["of"] = Field.TYPE_MESSAGE, fields[field.name]["of"]
                with self.subTest(message=name, field=field.name):
                    self.assertEqual(ours, fields.get(field.name))

    def test_serialized_fields_are_messages_in_tensorflow(self):
        for name in SERIALIZED:
            message, field = name.rsplit(".", 1)
            here = {item.name: item.type for item in self.messages[message].field}
            there = {item.name: item.type for item in theirs(message).field}
            self.assertEqual((here[field], there[field]), (Field.TYPE_BYTES, Field.TYPE_MESSAGE))

    def test_every_value_of_every_enum_is_tensorflows(self):
        for name, enum in self.enums.items():
            known = {value.name: value.number for value in theirs(name).value}
            with self.subTest(enum=name):
                self.assertEqual({}, dict({v.name: v.number for v in enum.value}.items() - known.items()))

    def test_the_messages_of_all_files_were_found(self):
        wanted = {"Event", "Summary.Value", "BundleHeaderProto", "BundleEntryProto", "CheckpointState", "GraphDef",
                  "MetaGraphDef", "SaverDef", "RunMetadata", "StepStats", "AttrValue", "TensorShapeProto.Dim"}
        self.assertLessEqual(wanted, self.messages.keys())
        self.assertLessEqual({"DataType", "SessionLog.SessionStatus"}, self.enums.keys())


if __name__ == "__main__":
    unittest.main()

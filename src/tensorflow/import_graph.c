/* SPDX-License-Identifier: Apache-2.0 */
/* Imports a file: a MetaGraphDef or a GraphDef, binary or text. */
#include "tensorflow/tf_backend.h"

#include "graph.pb-c.h"

#include "base/proto.h"
#include "base/wire_read.h"
#include "formats/proto_text.h"

#include <ctype.h>
#include <string.h>

/* Fields of MetaGraphDef and NodeDef. */
enum { META_GRAPH = 2, META_SAVER = 3, META_COLLECTION = 4, NODE_OP = 2 };

/* The format of the file. */

/* Text has no control characters except white space; a binary file has. */
static bool is_text(hs_bytes file)
{
    const unsigned char *data = file.data;
    for (size_t i = 0; i < file.size; i++)
        if (data[i] < ' ' && data[i] != '\n' && data[i] != '\r' && data[i] != '\t')
            return false;
    return true;
}

static bool is_op_type(hs_bytes text)
{
    const unsigned char *data = text.data;
    for (size_t i = 0; i < text.size; i++)
        if (!isalnum(data[i]) && data[i] != '_' && data[i] != '>')
            return false;
    return text.size > 0;
}

/* Returns true for a NodeDef. The second field of a MetaInfoDef, the other possibility, holds messages. */
static bool is_node(hs_bytes message)
{
    hs__fields fields = hs__fields_of(message);
    hs__field f;
    while (hs__fields_next(&fields, &f))
        if (f.number == NODE_OP)
            return is_op_type(f.bytes);
    return false;
}

typedef enum { NO_GRAPH, GRAPH, META, SAVED_MODEL } kind;

/* Reads the whole file. NO_GRAPH: it is damaged, truncated, or another kind of file. */
static kind kind_of(hs_bytes file)
{
    hs__fields fields = hs__fields_of(file);
    bool has_nodes = false, has_graph = false;
    hs__field f;
    while (hs__fields_next(&fields, &f)) {
        if (f.number > 7)
            return NO_GRAPH;
        if (f.number == 1 && !f.bytes.data) /* the schema's version */
            return SAVED_MODEL;
        has_nodes |= f.number == 1 && is_node(f.bytes);
        has_graph |= f.number == META_GRAPH && f.bytes.data;
    }
    if (fields.failed)
        return NO_GRAPH;
    return has_nodes ? GRAPH : has_graph ? META : NO_GRAPH;
}

/* The first field's name decides. */
static kind kind_of_text(hs_bytes file)
{
    static const char *const graphs[] = {"node", "versions", "version", "library"};
    static const char *const metas[] = {"meta_info_def",  "graph_def",     "saver_def",
                                        "collection_def", "signature_def", "asset_file_def"};
    const char *at = file.data, *end = at + file.size;
    while (at < end && (isspace((unsigned char)*at) || *at == '#'))
        if (*at++ == '#')
            while (at < end && *at != '\n')
                at++;
    size_t length = 0;
    while (at + length < end && (isalnum((unsigned char)at[length]) || at[length] == '_'))
        length++;
    for (size_t i = 0; i < sizeof graphs / sizeof *graphs; i++)
        if (strlen(graphs[i]) == length && memcmp(graphs[i], at, length) == 0)
            return GRAPH;
    for (size_t i = 0; i < sizeof metas / sizeof *metas; i++)
        if (strlen(metas[i]) == length && memcmp(metas[i], at, length) == 0)
            return META;
    return NO_GRAPH;
}

/* The graph itself. */

static hs_code import_graph(hs__tf_backend *backend, hs_bytes graph, hs_error *err)
{
    const hs__tf_api *tf = &backend->tf;
    TF_Status *status = tf->NewStatus();
    TF_ImportGraphDefOptions *options = tf->NewImportGraphDefOptions();
    TF_Buffer buffer = {.data = graph.data, .length = graph.size};
    tf->GraphImportGraphDef(backend->graph, &buffer, options, status);
    hs_code code = hs__tf_check_status(tf, status, err);
    tf->DeleteImportGraphDefOptions(options);
    tf->DeleteStatus(status);
    size_t at = 0;
    TF_Operation *op;
    while (!code && !backend->has_references && (op = tf->GraphNextOperation(backend->graph, &at)))
        hs__tf_record_references(backend, op);
    return code;
}

static hs_code import_meta(hs__tf_backend *backend, hs_bytes file, hs_error *err)
{
    hs__fields fields = hs__fields_of(file);
    hs_bytes graph = {NULL, 0};
    hs_code code = HS_OK;
    hs__field f;
    const unsigned char *begin = fields.at;
    for (; !code && hs__fields_next(&fields, &f); begin = fields.at) {
        if (f.number == META_GRAPH)
            graph = f.bytes;
        else if (f.number == META_SAVER)
            hs__buffer_append(&backend->saver_def, f.bytes.data, f.bytes.size);
        else
            hs__buffer_append(&backend->meta, begin, (size_t)(fields.at - begin));
        if (f.number == META_COLLECTION)
            code = hs__tf_add_collection(backend, f.bytes, err);
    }
    if (!code && !(code = hs__buffer_check(&backend->saver_def, "a SaverDef", err)))
        code = hs__buffer_check(&backend->meta, "a meta graph", err);
    return code ? code : import_graph(backend, graph, err);
}

static hs_code import_binary(hs__tf_backend *backend, hs_bytes file, kind what, hs_error *err)
{
    if (what == SAVED_MODEL)
        return hs_error_set(err, HS_INVALID_ARGUMENT,
                            "this is a SavedModel; export a MetaGraphDef (tf.train.export_meta_graph)");
    if (what == NO_GRAPH)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "this is neither a MetaGraphDef nor a GraphDef");
    hs_code code = what == META ? import_meta(backend, file, err) : import_graph(backend, file, err);
    return code ? code : hs__tf_list_variables(backend, err);
}

/* Converts text to binary, as TensorFlow's C functions read only that. */
static hs_code import_text(hs__tf_backend *backend, hs_bytes file, hs_error *err)
{
    kind what = kind_of_text(file);
    const ProtobufCMessageDescriptor *of =
        what == GRAPH ? &hs__pb__graph_def__descriptor : &hs__pb__meta_graph_def__descriptor;
    ProtobufCAllocator allocator = hs__proto_allocator(&backend->env);
    ProtobufCMessage *message;
    if (what == NO_GRAPH)
        return import_binary(backend, file, NO_GRAPH, err);
    hs_code code = hs__proto_parse_text(of, file.data, file.size, &allocator, &message, err);
    if (code)
        return code;
    hs__buffer binary;
    hs__buffer_init(&binary, &backend->env);
    hs__proto_pack(message, &binary);
    protobuf_c_message_free_unpacked(message, &allocator);
    if (!(code = hs__buffer_check(&binary, "a graph", err)))
        code = import_binary(backend, (hs_bytes){binary.data, binary.size}, what, err);
    hs__buffer_free(&binary);
    return code;
}

hs_code hs__tf_import(hs__tf_backend *backend, hs_bytes file, hs_error *err)
{
    return is_text(file) ? import_text(backend, file, err) : import_binary(backend, file, kind_of(file), err);
}

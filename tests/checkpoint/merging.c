/* SPDX-License-Identifier: Apache-2.0 */
#include "checkpoint/merging.h"

void write_shard(const char *prefix, int32_t shard, int32_t shards, const char *const *names)
{
    hs__bundle_writer writer;
    char data[64], bytes[3];
    snprintf(data, sizeof data, "%s.data-%05d-of-%05d", prefix, (int)shard, (int)shards);
    assert_ok(hs__bundle_writer_open(&writer, &t.env, in(data), shard, shards, &err), &err);
    for (; *names; names++) {
        memset(bytes, (*names)[0], sizeof bytes);
        hs_tensor value = hs_tensor_of(HS_UINT8, HS_SHAPE(3), bytes);
        assert_ok(hs__bundle_writer_add(&writer, *names, &value, &err), &err);
    }
    snprintf(data, sizeof data, "%s.index", prefix);
    assert_ok(hs__bundle_writer_finish(&writer, in(data), &err), &err);
    hs__bundle_writer_close(&writer);
}

bool has(const char *prefix, const char *const *names)
{
    const char *name;
    char bytes[3];
    size_t n = 0;
    hs_error why = {0};
    hs_checkpoint_reader *reader = hs_checkpoint_open(&t.env, in(prefix), &why);
    bool fine = reader;
    for (; fine && *names && hs_checkpoint_tensor(reader, n, &name, NULL); n++, names++)
        fine = strcmp(name, *names) == 0 && hs_checkpoint_read(reader, name, bytes, sizeof bytes, &why) == HS_OK &&
               bytes[0] == name[0] && bytes[2] == name[0];
    fine = fine && !*names && !hs_checkpoint_tensor(reader, n, &name, NULL);
    hs_checkpoint_close(reader);
    return fine;
}

hs_code merge_in(const hs_env *env, const char *merged, const char *const *names)
{
    char paths[4][512], to[512];
    const char *prefixes[5] = {NULL};
    for (size_t i = 0; names[i]; i++) {
        snprintf(paths[i], sizeof paths[i], "%s", in(names[i]));
        prefixes[i] = paths[i];
    }
    snprintf(to, sizeof to, "%s", in(merged));
    return hs_checkpoint_merge(env, prefixes, to, &err);
}

size_t files_of(const char *part)
{
    return test_count_files(directory, part);
}

void write_slice(const char *prefix, hs_shape whole, int64_t start, hs_dtype dtype)
{
    char data[64];
    hs__bundle_writer writer;
    const char bytes[8] = {(char)('a' + start), (char)('b' + start)};
    hs_tensor slice = hs_tensor_of(dtype, HS_SHAPE(2), bytes);
    snprintf(data, sizeof data, "%s.data-00000-of-00001", prefix);
    assert_ok(hs__bundle_writer_open(&writer, &t.env, in(data), 0, 1, &err), &err);
    assert_ok(hs__bundle_writer_add_slice(&writer, "w", &whole, &start, &slice, &err), &err);
    snprintf(data, sizeof data, "%s.index", prefix);
    assert_ok(hs__bundle_writer_finish(&writer, in(data), &err), &err);
    hs__bundle_writer_close(&writer);
}

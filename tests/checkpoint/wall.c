/* SPDX-License-Identifier: Apache-2.0 */
#include "checkpoint/wall.h"

#include <sys/stat.h>

int64_t brick_size(size_t i)
{
    static const int64_t sizes[BRICKS] = {40, LARGEST_BRICK, 30, 990, 50, 500, 480};
    return sizes[i];
}

static hs_code to_host(void *user, void *to, const void *from, size_t bytes, hs_error *err)
{
    (void)err;
    ((wall *)user)->device_reads++;
    memcpy(to, from, bytes);
    return HS_OK;
}

static hs_code from_host(void *user, void *to, const void *from, size_t bytes, hs_error *err)
{
    (void)user, (void)err;
    memcpy(to, from, bytes);
    return HS_OK;
}

static hs_code save_number(void *self, hs_state_writer *out, hs_error *err)
{
    const wall *w = self;
    return hs_state_writer_write(out, &w->state, sizeof w->state, err);
}

static hs_code load_number(void *self, hs_state_reader *in, hs_error *err)
{
    wall *w = self;
    return hs_state_reader_read(in, &w->state, sizeof w->state, err);
}

hs_code wall_open(wall *w, const hs_env *env, wall_kind kind)
{
    memset(w, 0, sizeof *w);
    w->device = (hs_memory)HS_INIT(hs_memory, .to_host = to_host, .from_host = from_host, .user = w);
    w->graph = hs_graph_new(env);
    for (size_t n = 0; n < BRICKS; n++) {
        size_t i = kind.reversed ? BRICKS - 1 - n : n;
        char name[16];
        snprintf(name, sizeof name, "brick%zu", i);
        hs_graph_add_variable(w->graph,
                              HS_VARIABLE_DEF(.name = name, .dtype = HS_FLOAT, .shape = HS_SHAPE(brick_size(i)),
                                              .data = w->values[i], .memory = kind.on_device[i] ? &w->device : NULL));
    }
    if (!kind.no_state)
        hs_graph_state(w->graph, "number", save_number, load_number, w);
    hs_backend backend = hs_graph_backend(w->graph);
    if (kind.on)
        backend.ops = kind.on;
    w->session = hs_session_open(backend, NULL, &w->err);
    return w->err.code;
}

void wall_close(wall *w)
{
    hs_session_close(w->session, NULL);
    hs_graph_free(w->graph);
}

void wall_set(wall *w, int64_t content)
{
    for (size_t i = 0; i < BRICKS; i++)
        for (int64_t j = 0; j < brick_size(i); j++)
            w->values[i][j] = (float)(content * 10000 + (int64_t)i * 1000 + j);
    w->state = content;
}

bool wall_is(const wall *w, int64_t content)
{
    wall wanted;
    wall_set(&wanted, content);
    for (size_t i = 0; i < BRICKS; i++)
        if (memcmp(w->values[i], wanted.values[i], (size_t)brick_size(i) * sizeof(float)) != 0)
            return false;
    return w->state == content;
}

hs_code wall_save(wall *w, fixture *f, int64_t content, const hs_save_options *options)
{
    wall_set(w, content);
    return hs_saver_save(f->saver, hs_session_raw(w->session), test_path(f->directory, "wall"), -1, options, &f->err);
}

void use_shards(fixture *f, int64_t shards)
{
    use_saver(f, (hs_saver_options)HS_INIT(hs_saver_options, .shards = shards));
}

void assert_wall(wall *w, fixture *f, int64_t content)
{
    wall_set(w, -1);
    assert_ok(hs_saver_restore(f->saver, hs_session_raw(w->session), test_path(f->directory, "wall"), NULL, &f->err),
              &f->err);
    assert_true(wall_is(w, content));
}

long shard_bytes(const fixture *f, const char *prefix, int shard, int shards)
{
    char name[64];
    struct stat found;
    snprintf(name, sizeof name, "%s.data-%05d-of-%05d", prefix, shard, shards);
    return stat(test_path(f->directory, name), &found) ? -1 : (long)found.st_size;
}

void open_bundle(const fixture *f, const char *prefix, hs__bundle_reader *reader)
{
    hs_error err = {0};
    assert_ok(hs__bundle_reader_open(reader, hs_env_default(), test_path(f->directory, prefix), &err), &err);
}

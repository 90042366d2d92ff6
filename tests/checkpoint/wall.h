/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_TESTS_CHECKPOINT_WALL_H
#define HS_TESTS_CHECKPOINT_WALL_H

#include "checkpoint/model.h"

#include "formats/bundle.h"

/* A model with variables of many sizes, "brick0" and so on, and a state. One number determines all values. */
enum { BRICKS = 7, LARGEST_BRICK = 1000 };

typedef struct wall {
    hs_graph *graph;
    hs_session *session;
    hs_memory device; /* counts reads in device_reads */
    size_t device_reads;
    float values[BRICKS][LARGEST_BRICK];
    int64_t state;
    hs_error err;
} wall;

/* Differences from the default. */
typedef struct wall_kind {
    bool reversed;            /* the last brick is added first */
    bool no_state;            /* without the state */
    bool on_device[BRICKS];   /* bricks in device memory */
    const hs_backend_ops *on; /* NULL: the graph's */
} wall_kind;

int64_t brick_size(size_t i);
hs_code wall_open(wall *w, const hs_env *env, wall_kind kind);
void wall_close(wall *w);
void wall_set(wall *w, int64_t content);
bool wall_is(const wall *w, int64_t content);

/* Saves it with that content to DIRECTORY/wall, with the fixture's saver. */
hs_code wall_save(wall *w, fixture *f, int64_t content, const hs_save_options *options);
/* Replaces the fixture's saver by a saver that writes this number of data files. */
void use_shards(fixture *f, int64_t shards);
/* Restores DIRECTORY/wall and checks the values. */
void assert_wall(wall *w, fixture *f, int64_t content);

/* Size of the data file; -1: it does not exist. */
long shard_bytes(const fixture *f, const char *prefix, int shard, int shards);
/* Opens DIRECTORY/PREFIX for reading. */
void open_bundle(const fixture *f, const char *prefix, hs__bundle_reader *reader);

#endif

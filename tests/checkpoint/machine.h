/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_TESTS_CHECKPOINT_MACHINE_H
#define HS_TESTS_CHECKPOINT_MACHINE_H

#include "checkpoint/model.h"
#include "support/disk.h"

/* A simulated program that saves to a simulated disk, which loses unsynced data at a power cut. The machine records what
 * was saved and which saves succeeded, and checks what a restart restores. Checkpoints are /run/model.ckpt-NAME; the names
 * -1 and -2 are /run/first and /run/second. Each save has a unique number, which determines the contents. */

enum { MOST_SAVES = 24, TABLE = 280 }; /* the table is a bit more than two sectors, which a power cut can write in part */

typedef struct machine_save {
    int64_t name, content;
} machine_save;

/* Kind of the machine's saves. */
typedef struct machine_kind {
    bool large;    /* saves the table as well */
    int shards;    /* data files; 0: 1 */
    bool changing; /* the number changes with each save: 1 to `shards` */
} machine_kind;

typedef struct machine {
    disk disk;
    machine_save saves[MOST_SAVES]; /* saves that were started, in order */
    size_t begun;
    int64_t contents; /* number of contents made */
    size_t sure;      /* number of durable saves: a restart must find the last of them or a later one */
    bool settled;     /* the restored checkpoint is durable */
    size_t at;        /* the model has the contents of this save, counted from 1; 0: its initial contents */
    size_t strays;    /* checkpoints that no saver will delete */
    bool put_off;     /* there may be more such checkpoints */
    int64_t keep;     /* checkpoints; 2 */
    machine_kind kind;
    bool quiet;         /* a restore must not log warnings */
    const char *story;  /* what happened, for messages */
    size_t story_at[2]; /* numbers for messages */
    disk_loss loss;     /* the last power cut */

    test_env *t; /* of the process; NULL: none runs */
    model m;
    float table[TABLE];
    hs_saver *saver;
    hs_error err;
} machine;

/* A machine with an empty disk and no process. */
void machine_init(machine *c, const char *story);
/* A copy of the machine and its disk, without a process. */
void machine_copy(machine *to, const machine *from);
/* Ends the process, if one runs. */
void machine_free(machine *c);

/* Starts a process: a model with its initial values, and a saver that keeps two checkpoints. */
void machine_start(machine *c);
/* The process ends normally. */
void machine_end(machine *c);
/* The power is cut: the process has no further effect. */
void machine_lose_power(machine *c, disk_loss loss);
/* The process is killed. Its writes stay in the cache of the system. */
void machine_lose_process(machine *c);

/* Saves the next contents. They are durable if this returns HS_OK while the power is on. */
hs_code machine_save_as(machine *c, int64_t name);
/* Restores the newest checkpoint. Its save must have been started, it must not be older than the last durable checkpoint,
 * and it must be equal bit by bit. An error fails the test, unless the power is off or a call was made to fail: then this
 * returns false. */
bool machine_restore(machine *c);
/* Restores, and saves twice. Returns false if power or disk failed. */
bool machine_resume(machine *c);
/* Asserts that the directory has the two checkpoints that were saved last, the state file and the lock, and no other
 * files. */
void machine_check_files(const machine *c);
/* Starts, resumes, checks its files, and restores its last save after all unsynced data are lost. */
void machine_recover(machine *c);

/* Starts, and saves these steps, ended by 0. */
void machine_save_all(machine *c, const int *names);
/* A new machine that saves these steps until the power is cut before change number `at`. Unsynced data are not lost yet.
 * Returns false if all steps were saved before. */
bool machine_cut_saving(machine *c, const int *names, size_t at, machine_kind kind);
/* Copies of the machine lose power in each way, with `seeds` seeds each, or only their process. Each must recover. */
void machine_recover_from_each_loss(const machine *left, size_t seeds);
/* Copies of the machine lose power a second time while they resume: before each change, each time in another way, the first
 * of which is `loss`. */
void machine_cut_resuming(const machine *left, size_t loss);
/* A machine of that kind survives `lives` failures. */
void machine_survive(machine_kind kind, size_t lives);
/* The nth way to lose power. After MACHINE_LOSSES the ways repeat with other seeds. */
enum { MACHINE_LOSSES = DISK_CONTENTS_LOSSES * DISK_NAMES_LOSSES };
disk_loss machine_loss(size_t n);

/* Fails the test with a message that has the story. */
void machine_fail(const machine *c, const char *what);

#endif

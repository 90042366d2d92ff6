/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_TESTS_CHECKPOINT_MACHINE_H
#define HS_TESTS_CHECKPOINT_MACHINE_H

#include "checkpoint/model.h"
#include "support/disk.h"

/* A program that saves to a disk that forgets: what it saved, what it was told of it, and what is found when it is started
 * again. Checkpoints are /run/model.ckpt-NAME; with the names -1 and -2 /run/first and /run/second. What is in them follows
 * from a number that no other save has. */

enum { MOST_SAVES = 24, TABLE = 280 }; /* the table: two sectors and a bit, so that data can be torn in many ways */

typedef struct machine_save {
    int64_t name, content;
} machine_save;

/* What is saved, and how. */
typedef struct machine_kind {
    bool large;    /* there is a table too */
    int shards;    /* data files; 0: 1 */
    bool changing; /* their number is another one each time: 1 to `shards` */
} machine_kind;

typedef struct machine {
    disk disk;
    machine_save saves[MOST_SAVES]; /* that were begun, in order */
    size_t begun;
    int64_t contents; /* that there were */
    size_t sure;      /* that many of them are not to be lost: the last of them, or a later one, is found */
    bool settled;     /* what is found is on the disk */
    size_t at;        /* that many is what the model has; 0: what it began with */
    size_t strays;    /* checkpoints that nobody is to delete */
    bool put_off;     /* there may be more that nobody deletes any more */
    int64_t keep;     /* checkpoints; 2 */
    machine_kind kind;
    bool quiet;         /* nothing is passed over with a warning */
    const char *story;  /* for messages */
    size_t story_at[2]; /* the same */
    disk_loss loss;     /* the last one */

    test_env *t; /* of the process; NULL: none runs */
    model m;
    float table[TABLE];
    hs_saver *saver;
    hs_error err;
} machine;

/* On an empty disk. Nothing runs yet. */
void machine_init(machine *c, const char *story);
/* A machine with the same disk and the same past, on which nothing runs. */
void machine_copy(machine *to, const machine *from);
/* Ends what runs. */
void machine_free(machine *c);

/* A new process: a model at its beginning, and a saver that keeps two. */
void machine_start(machine *c);
/* The process ends by itself. */
void machine_end(machine *c);
/* It ends by a power cut: nothing it does from now on has an effect. */
void machine_lose_power(machine *c, disk_loss loss);
/* It is killed; what the system has cached stays. */
void machine_lose_process(machine *c);

/* Saves what the model has next. It is sure if this is HS_OK while the power is on. */
hs_code machine_save_as(machine *c, int64_t name);
/* Restores the newest: one that was begun, not older than what is sure, bit for bit. An error is the test's end, unless the
 * power is off or a call was made to fail. False: it did not come to it. */
bool machine_restore(machine *c);
/* Restores what it may, and saves twice. False: power or disk failed. */
bool machine_go_on(machine *c);
/* The directory has the two checkpoints that were saved last, the state file and the lock, and no more. */
void machine_check_files(const machine *c);
/* Starts, goes on, finds its files, and finds its last save again when all that is not synced is lost. */
void machine_recover(machine *c);

/* Starts, and saves these steps, ended by 0. */
void machine_save_all(machine *c, const int *names);
/* A new machine on which these were saved until the power went before change `at`; nothing is lost yet. False: it had come
 * to its end. */
bool machine_cut_saving(machine *c, const int *names, size_t at, machine_kind kind);
/* Machines with the same past lose power in each way, so many times over, or only their process; each recovers. */
void machine_recover_from_each_loss(const machine *left, size_t seeds);
/* Machines with the same past lose power once more while they go on: at each instant, each time in another way, beginning
 * with that one. */
void machine_cut_going_on(const machine *left, size_t loss);
/* A machine of that kind lives through so many mishaps. */
void machine_live(machine_kind kind, size_t lives);
/* The nth way to lose power; they repeat themselves with other seeds. */
enum { MACHINE_LOSSES = DISK_CONTENTS_LOSSES * DISK_NAMES_LOSSES };
disk_loss machine_loss(size_t n);

/* Fails the test, telling where. */
void machine_fail(const machine *c, const char *what);

#endif

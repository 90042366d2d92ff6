/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_TESTS_TF1_SERVED_H
#define HS_TESTS_TF1_SERVED_H

#include "backends/bare.h"

#include <hooksess/tf1/session_manager.h>

/* A model of three numbers in the process, shared by all sessions as on a server: v, which init sets to the fed value or
 * its own; w, local, from v; and x = 3 v. */
typedef struct {
    bare *b;
    double v, w, x, first; /* NaN: not initialized */
    hs_session_manager *manager;
    hs_session_manager_options options;
    hs_session *session;
    int checks, local_inits;
    bool check_w; /* the ready_op also checks w */
    hs_string names[3];
    char *directory;
    hs_saver *saver;
    hs_backend_ops spied;
    int opened, closed;
    void (*on_open)(void *user);
} served;

/* cmocka's setup and teardown. Teardown fails if a session of the backend is open. */
int served_setup(void **state);
int served_teardown(void **state);
#define served_test(name) cmocka_unit_test_setup_teardown(name, served_setup, served_teardown)

#define PREPARE(...) (HS_PREPARE_OPTIONS(__VA_ARGS__))

/* A new session manager with s->options. */
hs_session_manager *served_manager(served *s);
/* The graph's backend, which counts opened and closed sessions. */
hs_backend served_backend(served *s);
/* Prepares a session. Returns false on failure. */
bool served_prepare(served *s, const hs_session_manager_prepare_options *options);
/* Waits for a session, with a poll each second. Returns false on failure. */
bool served_wait(served *s, double secs);
/* Fetches a number. */
double served_number(served *s, const char *name);
void served_close(served *s);

#endif

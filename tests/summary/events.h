/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_TESTS_SUMMARY_EVENTS_H
#define HS_TESTS_SUMMARY_EVENTS_H

#include "support/test.h"

#include "event.pb-c.h"

/* Reading event files. */

/* Shows each event of the directory's event files, in the order of their names. False: a file ends inside a record or has
 * an event that cannot be read. */
typedef void (*events_visitor)(const Hs__Pb__Event *event, void *user);
bool events_each(const char *directory, events_visitor visit, void *user);

/* The events as text, separated by blanks: "version", "graph", "meta", "start@1", "stop@9", "checkpoint@2", "run[TAG]@3",
 * and for a summary its tags, values and step: "loss=0.5,accuracy=1@8". Ends with "DAMAGED" if reading failed. The text is
 * valid until the next call. */
const char *events_text(const char *directory);

/* Removes the directory's event files. */
void events_remove(const char *directory);

#endif

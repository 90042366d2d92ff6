/* SPDX-License-Identifier: Apache-2.0 */
#include "summary/event_samples.h"

test_env t;
char *directory;
hs_error err;
hs__buffer file;
reports reported;

void on_damage(void *user, const hs_event_damage *damage)
{
    (void)user;
    reported.n++;
    reported.offset = damage->offset;
    reported.bytes = damage->bytes;
    reported.is_truncated = damage->is_truncated;
    snprintf(reported.text, sizeof reported.text, "%s", damage->message);
}

int set_up(void **state)
{
    (void)state;
    test_env_init(&t);
    directory = test_make_directory();
    hs_error_clear(&err);
    hs__buffer_init(&file, &t.env);
    memset(&reported, 0, sizeof reported);
    return 0;
}

int tear_down(void **state)
{
    (void)state;
    hs__buffer_free(&file);
    test_remove_directory(directory);
    return t.live ? -1 : 0;
}

void add_step(unsigned char step)
{
    const unsigned char event[] = {2 << 3, step};
    hs__record_append(&file, event, sizeof event);
}

void add_event(const void *data, size_t bytes)
{
    hs__record_append(&file, data, bytes);
}

const char *name(int i)
{
    char text[64];
    snprintf(text, sizeof text, "events.out.tfevents.%d", i);
    return test_path(directory, text);
}

void write_first(int i, size_t bytes)
{
    test_write_file(name(i), file.data ? (void *)file.data : "", bytes);
}

void write_steps(int i, unsigned char from, unsigned char to)
{
    hs__buffer_clear(&file);
    while (from < to)
        add_step(from++);
    write_first(i, file.size);
}

hs_event_reader *open_reader(bool follow)
{
    hs_event_reader_options options =
        HS_INIT(hs_event_reader_options, .env = &t.env, .follow = follow, .damaged = on_damage);
    hs_event_reader *reader = hs_event_reader_open(directory, &options, &err);
    assert_ok(err.code, &err);
    assert_non_null(reader);
    return reader;
}

void assert_step(hs_event_reader *reader, int64_t step)
{
    const hs_event *event;
    assert_ok(hs_event_reader_next(reader, &event, &err), &err);
    assert_int_equal(event->step, step);
}

void assert_stops(hs_event_reader *reader, hs_code code)
{
    const hs_event *event;
    for (int i = 0; i < 2; i++)
        assert_fails(hs_event_reader_next(reader, &event, &err), code, &err, directory);
}

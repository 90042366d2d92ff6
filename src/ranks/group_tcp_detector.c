/* SPDX-License-Identifier: Apache-2.0 */
/* The failure detector. Its thread (run) sends heartbeats, reads messages, finds lost neighbors, and ends the process when
 * the session does not react. `record` is the one place where a failure or a cut becomes known; it also passes it on. The
 * functions of the group and of the collective calls take the lock and look at the same state. */
#include "ranks/group_tcp_detector.h"

#include "base/c_locale.h"
#include "base/text.h"
#include "base/thread.h"
#include "ranks/group_tcp_socket.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

/* A message on a control connection: 4 bytes kind, 4 bytes length of the text, 4 bytes rank, 4 bytes failed (0 or 1), 8
 * bytes number of the first call that cannot complete, 8 bytes number of calls that the sender has begun; then the text.
 * PLACE has the place instead of failed, the number of calls that this rank has begun, and instead of the text the step,
 * and for how many nanoseconds the rank is there. */
enum { HEARTBEAT = 1, NOTICE = 2, PLACE = 3, PLACE_BYTES = 16 };

enum { POLL_MAX = HS__TCP_FAN_OUT + 2, RESTART = 75 };

#define SECOND_NS ((int64_t)1000000000)

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t add(int64_t time, int64_t duration)
{
    return duration == INT64_MAX || time > INT64_MAX - duration ? INT64_MAX : time + duration;
}

static void wake(int event)
{
    eventfd_write(event, 1);
}

/* Sending. The lock is held. */

/* Sends what the socket accepts. A failure ends the connection, which the thread then notices. */
static void flush(hs__tcp_link *link)
{
    size_t sent = 0;
    while (sent < link->out_used) {
        ssize_t n = send(link->edge->control, link->out + sent, link->out_used - sent, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK)
            sent = link->out_used;
        if (n < 0)
            break;
        sent += (size_t)n;
    }
    link->out_used -= sent;
    if (link->out_used && sent)
        memmove(link->out, link->out + sent, link->out_used);
}

static void post(hs__tcp_detector *d, hs__tcp_link *link, uint32_t kind, int32_t rank, uint32_t failed, uint64_t calls,
                 const void *text, size_t length)
{
    size_t bytes = HS__NOTICE_HEADER + length;
    if (hs__reserve(d->env, &link->out, &link->out_capacity, link->out_used + bytes, 1, NULL)) {
        shutdown(link->edge->control, SHUT_RDWR); /* out of memory. Both sides see a failure, instead of none */
        return;
    }
    unsigned char *at = link->out + link->out_used;
    hs__write_u32(at, kind);
    hs__write_u32(at + 4, (uint32_t)length);
    hs__write_u32(at + 8, (uint32_t)rank);
    hs__write_u32(at + 12, failed);
    hs__write_u64(at + 16, calls);
    hs__write_u64(at + 24, atomic_load(&d->begun));
    if (length)
        memcpy(at + HS__NOTICE_HEADER, text, length);
    link->out_used += bytes;
    flush(link);
}

/* Records that a rank has left, and sends the news to the neighbors but `from`. The lock is held.
 *
 * calls  the number of the first call that cannot complete. HS__NO_CUT: unknown */
static void record(hs__tcp_detector *d, int32_t rank, bool failed, uint64_t calls, const char *text,
                   const hs__tcp_link *from)
{
    bool is_first = failed && d->failed_rank < 0, cuts = calls < atomic_load(&d->cut);
    if (!is_first && !cuts)
        return;
    if (is_first) {
        d->failed_rank = rank;
        d->failed_ns = hs__tcp_now();
        hs_error_set(&d->failure, HS_UNAVAILABLE, "%s", text);
    }
    if (cuts) {
        d->cut_rank = rank;
        atomic_store(&d->cut, calls);
    }
    for (size_t i = 0; i < d->n_links; i++)
        if (&d->links[i] != from)
            post(d, &d->links[i], NOTICE, rank, failed, calls, text, strlen(text));
    wake(d->wake_session);
    wake(d->wake_thread);
}

static void describe_loss(const hs__tcp_detector *d, const hs__tcp_link *link, char text[HS_MESSAGE_SIZE])
{
    if (link->frozen)
        hs__snprintf(text, HS_MESSAGE_SIZE, "rank %d (%s) has failed: it has not responded for %g s", (int)link->edge->rank,
                     link->edge->host, (double)d->detector_ns / 1e9);
    else
        snprintf(text, HS_MESSAGE_SIZE, "rank %d (%s) has failed: its connection has ended", (int)link->edge->rank,
                 link->edge->host);
}

/* A neighbor has failed. The lock is held. */
static void lose(hs__tcp_detector *d, hs__tcp_link *link, bool frozen)
{
    char text[HS_MESSAGE_SIZE];
    link->lost = true;
    link->frozen = frozen;
    describe_loss(d, link, text);
    record(d, link->edge->rank, true, HS__NO_CUT, text, NULL);
    shutdown(link->edge->data, SHUT_RDWR); /* received data stays readable; then the connection has ended */
    wake(d->wake_session);
}

/* If a lost neighbor's data has all been received, the cut is known. `call`: the current call, or the next one. The lock is
 * held. */
static void set_cut(hs__tcp_detector *d, hs__tcp_link *link, uint64_t call)
{
    char text[HS_MESSAGE_SIZE];
    link->cut_known = true;
    describe_loss(d, link, text);
    record(d, link->edge->rank, true, call, text, NULL);
}

/* Places. The lock is held. */

static hs__rank_place own_place(const hs__tcp_detector *d)
{
    return (hs__rank_place){
        .place = d->place, .step = d->step, .since_ns = d->place_since_ns, .begun = atomic_load(&d->begun)};
}

/* Appends "ranks 0, 1 have waited at the end of step 41 for 62.9 s": the ranks that are where `first` is. They are then no
 * longer known. */
static void name_place(hs__tcp_detector *d, const hs__rank_place *first, char text[HS_MESSAGE_SIZE])
{
    static const char *const phrases[] = {[HS_BEFORE_GATE] = "been before the gate of",
                                          [HS_BEHIND_GATE] = "been behind the gate of",
                                          [HS_AT_END_OF_STEP] = "waited at the end of"};
    const hs__rank_place like = *first;
    const size_t used = strlen(text);
    char ranks[128] = "", secs[HS__NUMBER_TEXT];
    int64_t since = like.since_ns;
    int n = 0;
    for (int32_t rank = 0; rank < d->options->rank_count; rank++) {
        hs__rank_place *place = &d->places[rank];
        if (!place->known || place->place != like.place || place->step != like.step)
            continue;
        place->known = false;
        since = least(since, place->since_ns);
        hs__append_item(ranks, sizeof ranks, "%d", (int)rank);
        n++;
    }
    snprintf(text + used, HS_MESSAGE_SIZE - used, "%srank%s %s ha%s %s step %lld for %s", used ? "; " : "",
             n > 1 ? "s" : "", ranks, n > 1 ? "ve" : "s", phrases[like.place], (long long)like.step,
             hs__secs_text(secs, (double)(hs__tcp_now() - since) / 1e9));
}

/* Records the failure, when the places are known: of the rank behind the gate that has made the fewest calls, as the others
 * may wait for it in calls. If several have made as few, they may wait in the program's sum for one of them; it is not
 * known for which, and the first counts. The message names all. */
static void fail_by_places(hs__tcp_detector *d)
{
    static const hs_step_place order[] = {HS_BEHIND_GATE, HS_AT_END_OF_STEP, HS_BEFORE_GATE};
    const hs__rank_place *cause = NULL;
    char text[HS_MESSAGE_SIZE] = "";
    for (int32_t rank = 0; rank < d->options->rank_count; rank++) {
        const hs__rank_place *place = &d->places[rank];
        if (place->known && place->place == HS_BEHIND_GATE && (!cause || place->begun < cause->begun))
            cause = place;
    }
    for (size_t i = 0; i < sizeof order / sizeof *order; i++)
        for (int32_t rank = 0; rank < d->options->rank_count; rank++)
            if (d->places[rank].known && d->places[rank].place == order[i])
                name_place(d, &d->places[rank], text);
    if (cause)
        record(d, (int32_t)(cause - d->places), true, cause->begun, text, NULL);
}

/* Adds the place of a rank, and passes it on. */
static void add_place(hs__tcp_detector *d, int32_t rank, const hs__rank_place *place, const hs__tcp_link *from)
{
    const int64_t now = hs__tcp_now();
    const hs__rank_place own = own_place(d);
    unsigned char text[PLACE_BYTES];
    if (d->failed_rank >= 0 || d->places[rank].known)
        return;
    if (!d->n_places++)
        d->places_since_ns = now;
    d->places[rank] = *place;
    d->places[rank].known = true;
    hs__write_u64(text, (uint64_t)place->step);
    hs__write_u64(text + 8, (uint64_t)(now - place->since_ns));
    for (size_t i = 0; i < d->n_links; i++)
        if (&d->links[i] != from)
            post(d, &d->links[i], PLACE, rank, place->place, place->begun, text, sizeof text);
    if (!d->places[d->options->rank].known)
        add_place(d, d->options->rank, &own, NULL);
    else if (d->n_places == d->options->rank_count)
        fail_by_places(d);
}

/* If this rank has been behind the gate for too long, asks all ranks for their places. If some do not answer, the failure
 * is recorded without them. */
static void check_step(hs__tcp_detector *d, int64_t now)
{
    const hs__rank_place own = own_place(d);
    if (own.place == HS_BEHIND_GATE && d->place_until_ns <= now)
        add_place(d, d->options->rank, &own, NULL);
    if (d->n_places && d->failed_rank < 0 && now - d->places_since_ns >= d->detector_ns)
        fail_by_places(d);
}

/* Receiving. The lock is held. */

/* Handles a complete message. Returns false if it is invalid. */
static bool handle_message(hs__tcp_detector *d, hs__tcp_link *link, size_t length)
{
    char text[HS_MESSAGE_SIZE];
    const unsigned char *in = link->in;
    uint32_t kind = hs__read_u32(in), rank = hs__read_u32(in + 8);
    bool failed = hs__read_u32(in + 12) != 0;
    if (kind < HEARTBEAT || kind > PLACE || rank >= (uint32_t)d->options->rank_count ||
        (kind == PLACE && (length != PLACE_BYTES || hs__read_u32(in + 12) > HS_AT_END_OF_STEP ||
                           hs__read_u64(in + HS__NOTICE_HEADER + 8) > INT64_MAX / 2)))
        return false;
    link->begun = hs__read_u64(in + 24);
    if (kind == HEARTBEAT)
        return true;
    if (kind == PLACE) {
        add_place(d, (int32_t)rank,
                  &(hs__rank_place){.place = (hs_step_place)hs__read_u32(in + 12),
                                    .begun = hs__read_u64(in + 16),
                                    .step = (int64_t)hs__read_u64(in + HS__NOTICE_HEADER),
                                    .since_ns = hs__tcp_now() - (int64_t)hs__read_u64(in + HS__NOTICE_HEADER + 8)},
                  link);
        return true;
    }
    memcpy(text, in + HS__NOTICE_HEADER, length);
    text[length] = '\0';
    if ((int32_t)rank == link->edge->rank)
        link->exited = true;
    record(d, (int32_t)rank, failed, hs__read_u64(in + 16), text, link);
    return true;
}

/* Reads all messages that have arrived. Returns false if the connection has ended. */
static bool read_messages(hs__tcp_detector *d, hs__tcp_link *link)
{
    for (;;) {
        size_t length = link->got < HS__NOTICE_HEADER ? 0 : hs__read_u32(link->in + 4);
        size_t wanted = HS__NOTICE_HEADER + length;
        if (length >= HS_MESSAGE_SIZE)
            return false;
        if (link->got >= HS__NOTICE_HEADER && link->got == wanted) {
            link->got = 0;
            if (!handle_message(d, link, length))
                return false;
            continue;
        }
        ssize_t n = recv(link->edge->control, link->in + link->got, wanted - link->got, 0);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            return true;
        if (n <= 0)
            return false;
        link->got += (size_t)n;
        link->heard_ns = hs__tcp_now();
    }
}

/* The thread. */

static int64_t abandon_ns(const hs__tcp_detector *d)
{
    return d->abandon && !d->abandoning && d->failed_rank >= 0 ? add(d->failed_ns, d->grace_ns) : INT64_MAX;
}

static void *record_end(void *detector)
{
    hs__tcp_detector *d = detector;
    const hs_error why = d->failure;
    atomic_store(&d->exit_code, d->abandon(d->abandon_user, d->failed_rank, &why));
    atomic_store(&d->end_done, true);
    wake(d->wake_thread);
    return NULL;
}

static void *log_end(void *detector)
{
    hs__tcp_detector *d = detector;
    hs_log(d->env, HS_LOG_ERROR,
           "the process ends with exit code %d: the session is still open %g s after this failure: %s",
           atomic_load(&d->exit_code), (double)d->grace_ns / 1e9, d->failure.message);
    atomic_store(&d->end_done, true);
    wake(d->wake_thread);
    return NULL;
}

/* Calls a part of the end in a thread, because a file system or the log may hang. Waits for it until a limit. */
static void end_within(hs__tcp_detector *d, void *(*part)(void *), int64_t limit_ns)
{
    const int64_t until = hs__tcp_now() + limit_ns;
    pthread_t thread;
    atomic_store(&d->end_done, false);
    if (hs__thread_start(&thread, part, d) != 0)
        part(d);
    else
        pthread_detach(thread);
    while (!atomic_load(&d->end_done) && hs__tcp_now() < until) {
        struct pollfd poll_fd = {.fd = d->wake_thread, .events = POLLIN};
        eventfd_t count;
        poll(&poll_fd, 1, hs__tcp_poll_ms(until));
        eventfd_read(d->wake_thread, &count);
    }
}

/* Calls the session's function, and ends the process. From now on, no other thread changes the failure or the function. */
static _Noreturn void abandon(hs__tcp_detector *d)
{
    d->abandoning = true;
    pthread_mutex_unlock(&d->lock);
    end_within(d, record_end, 10 * SECOND_NS);
    end_within(d, log_end, 5 * SECOND_NS);
    _exit(atomic_load(&d->exit_code));
}

/* Waits for messages until a time, and handles them. Unlocks meanwhile. */
static void await_messages(hs__tcp_detector *d, int64_t until)
{
    struct pollfd fds[POLL_MAX];
    eventfd_t count;
    for (size_t i = 0; i < d->n_links; i++) {
        const hs__tcp_link *link = &d->links[i];
        short events = (short)((link->lost ? 0 : POLLIN) | (link->out_used ? POLLOUT : 0));
        fds[i] = (struct pollfd){.fd = events ? link->edge->control : -1, .events = events};
    }
    fds[d->n_links] = (struct pollfd){.fd = d->wake_thread, .events = POLLIN};
    pthread_mutex_unlock(&d->lock);
    int n = poll(fds, (nfds_t)d->n_links + 1, hs__tcp_poll_ms(until));
    pthread_mutex_lock(&d->lock);
    if (n <= 0)
        return;
    if (fds[d->n_links].revents)
        eventfd_read(d->wake_thread, &count);
    for (size_t i = 0; i < d->n_links; i++) {
        hs__tcp_link *link = &d->links[i];
        if (fds[i].revents)
            flush(link);
        if (link->lost || !(fds[i].revents & ~POLLOUT) || read_messages(d, link))
            continue;
        if (link->exited)
            link->lost = link->cut_known = true; /* the neighbor has reported the cut */
        else
            lose(d, link, false);
    }
}

static void *run(void *user)
{
    hs__tcp_detector *d = user;
    int64_t beat = 0, stop_ns = 0;
    pthread_mutex_lock(&d->lock);
    for (;;) {
        const int64_t now = hs__tcp_now();
        for (size_t i = 0; now >= beat && i < d->n_links; i++)
            if (!d->links[i].lost && !d->links[i].out_used)
                post(d, &d->links[i], HEARTBEAT, d->options->rank, false, 0, NULL, 0);
        if (now >= beat)
            beat = now + d->beat_ns;

        /* While the session's thread is in no call, this thread finds the cuts of lost neighbors. If the session's thread
         * has begun a call since, it may have received data, and finds the cut itself. */
        const uint64_t call = atomic_load(&d->begun);
        const bool between_calls = atomic_load(&d->ended) == call;
        for (size_t i = 0; i < d->n_links; i++) {
            hs__tcp_link *link = &d->links[i];
            if (between_calls && link->lost && !link->cut_known && hs__tcp_ended(link->edge->data) &&
                atomic_load(&d->begun) == call)
                set_cut(d, link, call);
        }

        check_step(d, now);
        if (abandon_ns(d) <= now)
            abandon(d);
        if (d->stopping && !stop_ns)
            stop_ns = now + 2 * SECOND_NS;
        bool has_output = false;
        for (size_t i = 0; i < d->n_links; i++)
            has_output |= d->links[i].out_used && !d->links[i].lost;
        if (d->stopping && (!has_output || now >= stop_ns))
            break;
        const int64_t until = least(beat, abandon_ns(d));
        await_messages(d, until);

        /* The time in which this process was suspended does not count. */
        const int64_t woken = hs__tcp_now();
        if (woken > until + d->beat_ns && d->place_until_ns < INT64_MAX)
            d->place_until_ns = add(d->place_until_ns, woken - until);
        for (size_t i = 0; i < d->n_links; i++) {
            hs__tcp_link *link = &d->links[i];
            if (woken > until + d->beat_ns)
                link->heard_ns = least(woken, link->heard_ns + (woken - until));
            if (!link->lost && !link->exited && woken - link->heard_ns >= d->detector_ns)
                lose(d, link, true);
        }
    }
    pthread_mutex_unlock(&d->lock);
    return NULL;
}

/* Start and stop. */

static int64_t to_ns(double secs, double otherwise)
{
    return secs < 0 ? INT64_MAX : (int64_t)((secs > 0 ? secs : otherwise) * 1e9);
}

hs_code hs__detector_start(hs__tcp_detector *d, const hs_group_tcp_options *options, const hs_env *env,
                           const hs__tcp_edges *edges, hs_error *err)
{
    *d = (hs__tcp_detector){.env = env, .options = options, .failed_rank = -1, .cut_rank = -1, .exit_code = RESTART};
    d->wake_thread = d->wake_session = -1;
    atomic_store(&d->cut, HS__NO_CUT);
    d->place_until_ns = INT64_MAX;
    hs__tcp_host_name(d->host, sizeof d->host);
    d->detector_ns = to_ns(options->detector_secs, 10);
    d->beat_ns = least(d->detector_ns / 10 + 1000000, SECOND_NS);
    /* Rank 0 is first, because it writes the outcome. A launcher ends all ranks when the first one exits. */
    d->grace_ns = add(to_ns(options->failure_grace_secs, 10), options->rank ? SECOND_NS : 0);
    pthread_mutex_init(&d->lock, NULL);
    if (!(d->links = hs__alloc(env, edges->n, sizeof *d->links)))
        return hs__no_memory(err, edges->n * sizeof *d->links, "the failure detector of a group");
    if (!(d->places = hs__alloc(env, (size_t)options->rank_count, sizeof *d->places)))
        return hs__no_memory(err, (size_t)options->rank_count * sizeof *d->places, "the failure detector of a group");
    d->n_links = edges->n;
    for (size_t i = 0; i < edges->n; i++) {
        d->links[i].edge = &edges->items[i];
        d->links[i].heard_ns = hs__tcp_now();
    }
    if (!edges->n)
        return HS_OK;
    if ((d->wake_thread = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) < 0 ||
        (d->wake_session = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) < 0)
        return hs_error_set_errno(err, errno, "eventfd");
    if (hs__thread_start(&d->thread, run, d) != 0)
        return hs_error_set(err, HS_RESOURCE_EXHAUSTED, "cannot start the thread of a failure detector");
    d->started = true;
    return HS_OK;
}

void hs__detector_stop(hs__tcp_detector *d)
{
    if (d->started) {
        hs__detector_report_exit(d, &(const hs_error){0});
        pthread_mutex_lock(&d->lock);
        d->stopping = true;
        pthread_mutex_unlock(&d->lock);
        wake(d->wake_thread);
        pthread_join(d->thread, NULL);
    }
    for (size_t i = 0; i < d->n_links; i++)
        hs__free(d->env, d->links[i].out);
    hs__free(d->env, d->links);
    hs__free(d->env, d->places);
    hs__tcp_close(&d->wake_thread);
    hs__tcp_close(&d->wake_session);
    pthread_mutex_destroy(&d->lock);
}

/* The functions of the group. */

void hs__detector_report_exit(hs__tcp_detector *d, const hs_error *reason)
{
    char text[HS_MESSAGE_SIZE];
    snprintf(text, sizeof text, "rank %d (%s) has %s%s%.800s", (int)d->options->rank, d->host,
             reason->code ? "failed" : "ended", reason->code ? ": " : "", reason->code ? reason->message : "");
    pthread_mutex_lock(&d->lock);
    d->place_until_ns = INT64_MAX;
    for (size_t i = 0; !d->exit_reported && i < d->n_links; i++)
        post(d, &d->links[i], NOTICE, d->options->rank, reason->code != HS_OK, atomic_load(&d->begun), text, strlen(text));
    d->exit_reported = true;
    pthread_mutex_unlock(&d->lock);
    if (d->started)
        wake(d->wake_thread);
}

hs_code hs__detector_query(hs__tcp_detector *d, int32_t *rank, hs_error *err)
{
    pthread_mutex_lock(&d->lock);
    hs_code code = d->failed_rank >= 0 ? HS_UNAVAILABLE : HS_OK;
    *rank = d->failed_rank;
    if (code)
        *err = d->failure;
    pthread_mutex_unlock(&d->lock);
    return code;
}

void hs__detector_set_abandon(hs__tcp_detector *d, hs_abandon_fn abandon_fn, void *user)
{
    pthread_mutex_lock(&d->lock);
    if (d->abandoning) { /* the detector's thread ends the process */
        pthread_mutex_unlock(&d->lock);
        for (;;)
            pause();
    }
    d->abandon = abandon_fn;
    d->abandon_user = user;
    pthread_mutex_unlock(&d->lock);
    if (d->started)
        wake(d->wake_thread);
}

void hs__detector_report_step(hs__tcp_detector *d, hs_step_place place, int64_t step, double limit_secs)
{
    pthread_mutex_lock(&d->lock);
    d->place = place;
    d->step = step;
    d->place_since_ns = hs__tcp_now();
    d->place_until_ns = limit_secs > 0 ? add(d->place_since_ns, to_ns(limit_secs, 0)) : INT64_MAX;
    pthread_mutex_unlock(&d->lock);
}

/* For collective calls. */

/* Fails a call that cannot complete. The lock is held. */
static hs_code fail_call(hs__tcp_detector *d, const char *name, hs_error *err)
{
    if (d->failed_rank < 0) { /* it ended normally */
        char text[HS_MESSAGE_SIZE];
        snprintf(text, sizeof text, "rank %d has ended, but rank %d calls %s", (int)d->cut_rank, (int)d->options->rank,
                 name);
        record(d, d->cut_rank, true, HS__NO_CUT, text, NULL);
    }
    return hs__error_copy(err, &d->failure);
}

hs_code hs__detector_begin_call(hs__tcp_detector *d, const char *name, uint64_t *call, hs_error *err)
{
    hs_code code = HS_OK;
    *call = atomic_load_explicit(&d->begun, memory_order_relaxed);
    if (*call < atomic_load(&d->cut)) {
        atomic_store(&d->begun, *call + 1);
        return HS_OK;
    }
    pthread_mutex_lock(&d->lock);
    code = fail_call(d, name, err);
    pthread_mutex_unlock(&d->lock);
    return code;
}

void hs__detector_end_call(hs__tcp_detector *d)
{
    atomic_store(&d->ended, atomic_load_explicit(&d->begun, memory_order_relaxed));
}

hs_code hs__detector_check_call(hs__tcp_detector *d, uint64_t call, const char *name, int64_t *give_up_ns, hs_error *err)
{
    hs_code code = HS_OK;
    pthread_mutex_lock(&d->lock);
    for (size_t i = 0; i < d->n_links; i++) {
        hs__tcp_link *link = &d->links[i];
        if (link->lost && !link->cut_known && hs__tcp_ended(link->edge->data))
            set_cut(d, link, link->done_calls > call ? link->done_calls : call);
    }
    *give_up_ns = d->failed_rank >= 0 ? add(d->failed_ns, d->detector_ns) : INT64_MAX;
    if (call >= atomic_load(&d->cut))
        code = fail_call(d, name, err);
    else if (*give_up_ns <= hs__tcp_now()) {
        record(d, d->failed_rank, true, call, d->failure.message, NULL);
        code = fail_call(d, name, err);
    }
    pthread_mutex_unlock(&d->lock);
    return code;
}

hs_code hs__detector_data_ended(hs__tcp_detector *d, hs__tcp_link *link, uint64_t call, const char *name, hs_error *err)
{
    const int64_t limit = hs__tcp_now() + least(d->detector_ns, SECOND_NS);
    for (;;) {
        pthread_mutex_lock(&d->lock);
        if (call < atomic_load(&d->cut) && (link->lost || hs__tcp_now() >= limit)) {
            if (!link->lost)
                lose(d, link, false);
            set_cut(d, link, call);
        }
        const bool cut = call >= atomic_load(&d->cut);
        if (cut)
            fail_call(d, name, err);
        pthread_mutex_unlock(&d->lock);
        if (cut)
            return HS_UNAVAILABLE;
        struct pollfd poll_fd = {.fd = d->wake_session, .events = POLLIN};
        poll(&poll_fd, 1, hs__tcp_poll_ms(limit));
        hs__detector_woken(d);
    }
}

hs_code hs__detector_fail_rank(hs__tcp_detector *d, int32_t rank, uint64_t call, const char *why, hs_error *err)
{
    pthread_mutex_lock(&d->lock);
    record(d, rank, true, call, why, NULL);
    hs_code code = hs__error_copy(err, &d->failure);
    pthread_mutex_unlock(&d->lock);
    return code;
}

bool hs__detector_has_begun(hs__tcp_detector *d, const hs__tcp_link *link, uint64_t call)
{
    pthread_mutex_lock(&d->lock);
    bool has = link->begun > call;
    pthread_mutex_unlock(&d->lock);
    return has;
}

void hs__detector_woken(hs__tcp_detector *d)
{
    eventfd_t count;
    eventfd_read(d->wake_session, &count);
}

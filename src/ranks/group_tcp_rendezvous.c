/* SPDX-License-Identifier: Apache-2.0 */
#ifdef __linux__
#define _GNU_SOURCE /* getrandom */
#endif
/* Rank 0 listens and publishes its addresses and the token of the job (hs__rendezvous_publish). Other ranks get them from
 * the options, from the program's function (hs__rendezvous_begin) or from the file (hs__rendezvous_find). */
#include "ranks/group_tcp_rendezvous.h"

#include "base/paths.h"
#include "base/write_posix.h"
#include "ranks/group_tcp_socket.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

static const char file_name[] = ".hooksess-rendezvous";

/* What the file and the program's function transport: three lines, the addresses, the token, and the name of the job. Or,
 * by the function only, the error of rank 0 as "!CODE MESSAGE". */
enum { RECORD = HS__ADDRESSES_MAX + 2 * HS__HELLO_TOKEN + 1 };

hs_code hs__rendezvous_init(hs__tcp_rendezvous *rendezvous, const hs_group_tcp_options *options, const hs_env *env,
                            hs_error *err)
{
    double secs = options->connect_secs > 0 ? options->connect_secs : 60;
    *rendezvous = (hs__tcp_rendezvous){.options = options, .job = options->job ? options->job : ""};
    rendezvous->connect_ns = (int64_t)(secs * 1e9);
    rendezvous->deadline = hs__tcp_now() + rendezvous->connect_ns;
    if (!options->rendezvous_dir)
        return HS_OK;
    rendezvous->path = hs__path_join(env, options->rendezvous_dir, file_name);
    return rendezvous->path ? HS_OK : hs__no_memory(err, 0, "the path of a rendezvous file");
}

void hs__rendezvous_release(hs__tcp_rendezvous *rendezvous, const hs_env *env)
{
    hs__rendezvous_withdraw(rendezvous);
    hs__free(env, rendezvous->path);
    rendezvous->path = NULL;
}

static void write_record(const hs__tcp_rendezvous *rendezvous, char record[RECORD])
{
    snprintf(record, RECORD, "%s\n%s\n%s\n", rendezvous->addresses, rendezvous->token, rendezvous->job);
}

/* Reads the file. Sets *own if it is a file of this user. Returns false without a file. */
static bool read_file(const char *path, char record[RECORD], bool *own)
{
    struct stat file;
    int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return false;
    memset(record, 0, RECORD);
    *own = fstat(fd, &file) == 0 && S_ISREG(file.st_mode) && file.st_uid == geteuid();
    if (*own && read(fd, record, RECORD - 1) < 0)
        *record = '\0';
    close(fd);
    return true;
}

/* Reads the file that this rank has published. Sets *same if it still has this rank's record. Returns false without a file
 * of this user. */
static bool read_published(const hs__tcp_rendezvous *rendezvous, bool *same)
{
    char record[RECORD], found[RECORD];
    bool own;
    if (!rendezvous->published || !read_file(rendezvous->path, found, &own) || !own)
        return false;
    write_record(rendezvous, record);
    *same = strcmp(found, record) == 0;
    return true;
}

void hs__rendezvous_withdraw(hs__tcp_rendezvous *rendezvous)
{
    bool same;
    if (read_published(rendezvous, &same) && same)
        unlink(rendezvous->path);
    rendezvous->published = false;
}

hs_code hs__rendezvous_check(const hs__tcp_rendezvous *rendezvous, hs_error *err)
{
    bool same;
    if (!read_published(rendezvous, &same) || same)
        return HS_OK;
    return hs_error_set(err, HS_UNAVAILABLE, "another rank 0 has replaced '%s': the ranks were started again",
                        rendezvous->path);
}

hs_code hs__rendezvous_random(void *bytes, size_t n, hs_error *err)
{
    ssize_t got;
    do
        got = getrandom(bytes, n, 0);
    while (got < 0 && errno == EINTR);
    return got == (ssize_t)n ? HS_OK : hs_error_set_errno(err, got < 0 ? errno : EIO, "getrandom");
}

static hs_code make_nonce(char token[HS__HELLO_TOKEN], hs_error *err)
{
    unsigned char random[24];
    hs_code code = hs__rendezvous_random(random, sizeof random, err);
    for (size_t i = 0; !code && i < sizeof random; i++)
        snprintf(token + 2 * i, 3, "%02x", random[i]);
    return code;
}

/* Writes the file under a temporary name, and renames it. Readers see no file or a whole one. The temporary name is random,
 * and does not contain the token: other users can list the directory. */
static hs_code write_file(hs__tcp_rendezvous *rendezvous, const hs_env *env, const char *record, hs_error *err)
{
    const char *directory = rendezvous->options->rendezvous_dir;
    if (mkdir(directory, 0777) != 0 && errno != EEXIST)
        return hs_error_set_errno(err, errno, "cannot create the directory '%s'", directory);
    char *tmp = hs__format(env, "%s.XXXXXX", rendezvous->path);
    if (!tmp)
        return hs__no_memory(err, 0, "the path of a rendezvous file");
    hs_code code = HS_OK;
    int fd = mkstemp(tmp);
    if (fd < 0) {
        code = hs_error_set_errno(err, errno, "cannot create '%s'", rendezvous->path);
    } else {
        bool ok = fcntl(fd, F_SETFD, FD_CLOEXEC) == 0;
        for (size_t bytes = strlen(record); ok && bytes;) {
            ssize_t n = hs__write(fd, record, bytes);
            ok = n >= 0;
            record += ok ? n : 0;
            bytes -= ok ? (size_t)n : 0;
        }
        ok = close(fd) == 0 && ok;
        rendezvous->published = ok && rename(tmp, rendezvous->path) == 0;
        if (!rendezvous->published) {
            code = hs_error_set_errno(err, errno, "cannot write '%s'", rendezvous->path);
            unlink(tmp);
        }
    }
    hs__free(env, tmp);
    return code;
}

/* Copies the line at *at, of fewer than `size` bytes, and sets *at to the next one. Returns false if it is invalid. */
static bool read_line(const char **at, char *line, size_t size)
{
    const char *end = strchr(*at, '\n');
    if (!end || (size_t)(end - *at) >= size)
        return false;
    snprintf(line, size, "%.*s", (int)(end - *at), *at);
    *at = end + 1;
    return true;
}

/* Sets addresses and token from a record, which is terminated. Returns false if it is invalid. */
static bool read_record(hs__tcp_rendezvous *rendezvous, const char record[RECORD], char job[HS__HELLO_TOKEN])
{
    return read_line(&record, rendezvous->addresses, HS__ADDRESSES_MAX) &&
           read_line(&record, rendezvous->token, HS__HELLO_TOKEN) && read_line(&record, job, HS__HELLO_TOKEN);
}

static void write_failure(const hs_error *why, char record[RECORD])
{
    snprintf(record, RECORD, "!%d %.*s", (int)why->code, RECORD - 16, why->message);
}

static bool uses_address(const hs_group_tcp_options *options)
{
    return !options->rendezvous_dir && !options->exchange;
}

/* Listens where the options say. If that fails, and the other ranks cannot learn it otherwise, sets *failure and listens on
 * another port. */
static hs_code begin_to_listen(const hs_group_tcp_options *options, hs__tcp_listener *listener, hs_error *failure,
                               hs_error *err)
{
    char host[HS__ADDRESS_MAX];
    int port = 0;
    hs_error unused;
    hs_code code = options->address ? hs__tcp_split(options->address, host, &port, err) : HS_OK;
    if (code || !(code = hs__tcp_listen(options->address ? host : NULL, port, listener, err)))
        return code;
    const int other_port = uses_address(options) ? port + 1 : 0;
    if (options->exchange || !port || other_port > HS__PORT_MAX || hs__tcp_listen(host, other_port, listener, &unused))
        return code;
    *failure = *err;
    return HS_OK;
}

bool hs__rendezvous_next_port(const hs__tcp_rendezvous *rendezvous, char address[HS__ADDRESS_MAX])
{
    char host[HS__ADDRESS_MAX];
    int port;
    hs_error unused;
    if (!uses_address(rendezvous->options) || hs__tcp_split(rendezvous->options->address, host, &port, &unused))
        return false;
    hs__tcp_join(address, host, port + 1);
    return true;
}

hs_code hs__rendezvous_publish(hs__tcp_rendezvous *rendezvous, const hs_env *env, hs__tcp_listener *listener,
                               hs_error *failure, hs_error *err)
{
    const hs_group_tcp_options *options = rendezvous->options;
    char record[RECORD] = "";
    hs_code code = begin_to_listen(options, listener, failure, err);
    if (uses_address(options)) {
        snprintf(rendezvous->token, HS__HELLO_TOKEN, "%s", rendezvous->job);
        return code;
    }
    if (!code && !(code = hs__tcp_publish(listener, rendezvous->addresses, err)) &&
        !(code = make_nonce(rendezvous->token, err)))
        write_record(rendezvous, record);
    if (options->rendezvous_dir)
        return code ? code : write_file(rendezvous, env, record, err);
    /* also after a failure, because the other ranks wait in this function */
    if (code)
        write_failure(err, record);
    hs_error exchange_error = {0};
    hs_code exchanged = options->exchange(options->exchange_user, record, sizeof record, &exchange_error);
    if (code || !exchanged)
        return code;
    hs__normalize_error(exchanged, "hs_group_tcp_options.exchange", &exchange_error);
    return hs__error_copy(err, &exchange_error);
}

void hs__rendezvous_decline(const hs_group_tcp_options *options, const hs_error *why)
{
    char record[RECORD] = "";
    hs_error unused = {0};
    write_failure(why, record);
    if (options->exchange && options->rank_count != 1)
        options->exchange(options->exchange_user, record, sizeof record, &unused);
}

hs_code hs__rendezvous_begin(hs__tcp_rendezvous *rendezvous, hs_error *err)
{
    const hs_group_tcp_options *options = rendezvous->options;
    char record[RECORD] = "", job[HS__HELLO_TOKEN];
    if (uses_address(options)) {
        snprintf(rendezvous->addresses, HS__ADDRESSES_MAX, "%s", options->address);
        snprintf(rendezvous->token, HS__HELLO_TOKEN, "%s", rendezvous->job);
    }
    if (!options->exchange)
        return HS_OK;
    hs_code code = options->exchange(options->exchange_user, record, sizeof record, err);
    if (code)
        return hs__normalize_error(code, "hs_group_tcp_options.exchange", err);
    record[RECORD - 1] = '\0';
    if (*record == '!') { /* the error of rank 0 */
        char *message;
        const long rank_0_code = strtol(record + 1, &message, 10);
        return hs_error_set(err, rank_0_code ? (hs_code)rank_0_code : HS_UNAVAILABLE, "rank 0:%s", message);
    }
    if (!read_record(rendezvous, record, job))
        return hs_error_set(err, HS_INTERNAL, "hs_group_tcp_options.exchange has not copied what rank 0 has sent");
    return HS_OK;
}

hs_code hs__rendezvous_find(hs__tcp_rendezvous *rendezvous, hs_error *err)
{
    char record[RECORD], job[HS__HELLO_TOKEN];
    bool own;
    if (!rendezvous->path)
        return HS_OK;
    if (!read_file(rendezvous->path, record, &own))
        return hs_error_set(err, HS_UNAVAILABLE, "rank 0 has not written '%s'", rendezvous->path);
    if (!own || !read_record(rendezvous, record, job))
        return hs_error_set(err, HS_UNAVAILABLE, "'%s' %s", rendezvous->path,
                            own ? "is not a rendezvous file" : "is not a file of this user");
    if (strcmp(job, rendezvous->job) == 0)
        return HS_OK;
    return hs_error_set(err, HS_UNAVAILABLE, "'%s' belongs to job '%s', but this process to job '%s'", rendezvous->path,
                        job, rendezvous->job);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "formats/checker.h"

#include "base/crc32c.h"
#include "base/thread.h"

/* A piece is looked at and checksummed while it is in the processor's cache. Whole elements of every dtype. */
enum { PIECE = 1 << 18 };

struct hs__checker {
    const hs_env *env;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    hs_tensor tensor;
    hs__checked checked;
    bool busy, quit;
};

static void add_nonfinite(hs_nonfinite *all, const hs_nonfinite *found, size_t before)
{
    if (found->first_index < 0)
        return;
    if (all->first_index < 0)
        all->first_index = found->first_index + (int64_t)before;
    all->nan += found->nan;
    all->positive_infinity += found->positive_infinity;
    all->negative_infinity += found->negative_infinity;
}

void hs__check_piece(hs__checked *checked, hs_dtype dtype, const void *piece, size_t at, size_t n)
{
    size_t size = hs_dtype_size(dtype);
    hs_tensor tensor = hs_tensor_of(dtype, (hs_shape){.rank = 1, .dims = {(int64_t)(n / size)}}, piece);
    hs_nonfinite found = hs_tensor_nonfinite(&tensor);
    add_nonfinite(&checked->nonfinite, &found, at / size);
    checked->crc = hs__crc32c(checked->crc, piece, n);
}

static hs__checked check(const hs_tensor *tensor)
{
    hs__checked checked = HS__NOT_CHECKED;
    for (size_t at = 0, n; at < tensor->bytes; at += n) {
        n = tensor->bytes - at < PIECE ? tensor->bytes - at : PIECE;
        hs__check_piece(&checked, tensor->dtype, (const char *)tensor->data + at, at, n);
    }
    return checked;
}

static void *work(void *user)
{
    hs__checker *checker = user;
    pthread_mutex_lock(&checker->lock);
    for (;;) {
        while (!checker->busy && !checker->quit)
            pthread_cond_wait(&checker->changed, &checker->lock);
        if (!checker->busy)
            break;
        hs_tensor tensor = checker->tensor;
        pthread_mutex_unlock(&checker->lock);
        hs__checked checked = check(&tensor);
        pthread_mutex_lock(&checker->lock);
        checker->checked = checked;
        checker->busy = false;
        pthread_cond_broadcast(&checker->changed);
    }
    pthread_mutex_unlock(&checker->lock);
    return NULL;
}

hs__checker *hs__checker_new(const hs_env *env)
{
    hs__checker *checker = hs__alloc(env, 1, sizeof *checker);
    if (!checker)
        return NULL;
    checker->env = env;
    int failed = pthread_mutex_init(&checker->lock, NULL);
    if (!failed && (failed = pthread_cond_init(&checker->changed, NULL)))
        pthread_mutex_destroy(&checker->lock);
    if (!failed && (failed = hs__thread_start(&checker->thread, work, checker))) {
        pthread_cond_destroy(&checker->changed);
        pthread_mutex_destroy(&checker->lock);
    }
    if (!failed)
        return checker;
    hs__free(env, checker);
    return NULL;
}

void hs__checker_free(hs__checker *checker)
{
    if (!checker)
        return;
    pthread_mutex_lock(&checker->lock);
    checker->quit = true;
    pthread_cond_broadcast(&checker->changed);
    pthread_mutex_unlock(&checker->lock);
    pthread_join(checker->thread, NULL);
    pthread_cond_destroy(&checker->changed);
    pthread_mutex_destroy(&checker->lock);
    hs__free(checker->env, checker);
}

void hs__checker_begin(hs__checker *checker, const hs_tensor *tensor)
{
    pthread_mutex_lock(&checker->lock);
    checker->tensor = *tensor;
    checker->busy = true;
    pthread_cond_broadcast(&checker->changed);
    pthread_mutex_unlock(&checker->lock);
}

hs__checked hs__checker_end(hs__checker *checker)
{
    pthread_mutex_lock(&checker->lock);
    while (checker->busy)
        pthread_cond_wait(&checker->changed, &checker->lock);
    hs__checked checked = checker->checked;
    pthread_mutex_unlock(&checker->lock);
    return checked;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "threads/thread_list.h"

#include "threads/thread.h"

bool hs__list_has(const hs__thread_list *list, const hs_thread *thread)
{
    for (size_t i = 0; list && i < list->n; i++)
        if (list->items[i] == thread)
            return true;
    return false;
}

hs__thread_list *hs__list_retain(hs__thread_list *list)
{
    if (list)
        atomic_fetch_add(&list->references, 1);
    return list;
}

void hs__list_release(const hs_env *env, hs__thread_list *list)
{
    if (!list || atomic_fetch_sub(&list->references, 1) != 1)
        return;
    for (size_t i = 0; i < list->n; i++)
        hs__thread_release(list->items[i]);
    hs__free(env, list);
}

static size_t count_living(const hs__thread_list *list)
{
    size_t n = 0;
    for (size_t i = 0; list && i < list->n; i++)
        n += !hs__thread_has_ended(list->items[i]);
    return n;
}

/* A longer one instead, without the threads that have ended: a program may start short ones forever. */
static hs_code grow(const hs_env *env, hs__thread_list **list, hs__thread_list **old, hs_error *err)
{
    size_t capacity = 2 * count_living(*list);
    if (capacity < 8)
        capacity = 8;
    size_t bytes = sizeof **list + capacity * sizeof *(*list)->items;
    hs__thread_list *grown = hs__alloc(env, 1, bytes);
    if (!grown)
        return hs__no_memory(err, bytes, "the coordinator's threads");
    atomic_init(&grown->references, 1);
    grown->capacity = capacity;
    for (size_t i = 0; *list && i < (*list)->n && grown->n < capacity; i++)
        if (!hs__thread_has_ended((*list)->items[i]))
            grown->items[grown->n++] = hs__thread_retain((*list)->items[i]);
    *old = *list;
    *list = grown;
    return HS_OK;
}

hs_code hs__list_add(const hs_env *env, hs__thread_list **list, hs_thread *thread, hs__thread_list **old, hs_error *err)
{
    *old = NULL;
    if (!*list || (*list)->n == (*list)->capacity) {
        hs_code code = grow(env, list, old, err);
        if (code)
            return code;
    }
    (*list)->items[(*list)->n++] = hs__thread_retain(thread);
    return HS_OK;
}

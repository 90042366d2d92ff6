/* SPDX-License-Identifier: Apache-2.0 */
#include "support/test.h"

#include "base/map.h"

#include <sys/random.h>

static test_env t;
static hs__map map;
static bool no_randomness;

ssize_t __real_getrandom(void *to, size_t bytes, unsigned flags);
ssize_t __wrap_getrandom(void *to, size_t bytes, unsigned flags);

ssize_t __wrap_getrandom(void *to, size_t bytes, unsigned flags)
{
    return no_randomness ? -1 : __real_getrandom(to, bytes, flags);
}

static int set_up(void **state)
{
    (void)state;
    test_env_init(&t);
    hs__map_init(&map, &t.env);
    no_randomness = false;
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    hs__map_free(&map);
    return t.live ? -1 : 0;
}

static const char *name_of(size_t i)
{
    static char name[40];
    snprintf(name, sizeof name, "layer_%zu/weights", i);
    return name;
}

static void add(const char *name, size_t value)
{
    hs_error err = {0};
    assert_ok(hs__map_add(&map, name, value, NULL, &err), &err);
}

static void an_empty_map_finds_nothing(void **state)
{
    (void)state;
    assert_int_equal(hs__map_find(&map, ""), HS__NONE);
    assert_int_equal(hs__map_find(&map, "x"), HS__NONE);
    assert_int_equal(t.allocations, 0);
}

static void a_value_is_changed(void **state)
{
    (void)state;
    for (size_t i = 0; i < 100; i++)
        add(name_of(i), i);
    hs__map_set(&map, name_of(7), 70);
    for (size_t i = 0; i < 100; i++)
        assert_int_equal(hs__map_find(&map, name_of(i)), i == 7 ? 70 : i);
}

static void thousands_of_names_are_found(void **state)
{
    (void)state;
    const size_t n = 5000;
    for (size_t i = 0; i < n; i++)
        add(name_of(i), i);
    assert_int_equal(map.n, n);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(hs__map_find(&map, name_of(i)), i);
    assert_int_equal(hs__map_find(&map, name_of(n)), HS__NONE);
}

static void names_differ_by_every_byte(void **state)
{
    (void)state;
    static const char *const names[] = {"", "a", "A", "ab", "ba", "a ", "a\xff", "a/b"};
    size_t n = sizeof names / sizeof *names;
    for (size_t i = 0; i < n; i++)
        add(names[i], i);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(hs__map_find(&map, names[i]), i);
    assert_int_equal(hs__map_find(&map, "b"), HS__NONE);
}

static void the_name_is_copied_and_does_not_move(void **state)
{
    (void)state;
    hs_error err = {0};
    char name[] = "first";
    const char *kept = NULL;
    assert_ok(hs__map_add(&map, name, 1, &kept, &err), &err);
    memset(name, 'x', sizeof name - 1);
    for (size_t i = 0; i < 100; i++) /* the table moves, the names do not */
        add(name_of(i), i);
    assert_string_equal(kept, "first");
    assert_int_equal(hs__map_find(&map, "first"), 1);
    assert_int_equal(hs__map_find(&map, name), HS__NONE);
}

static void a_name_keeps_its_first_value(void **state)
{
    (void)state;
    hs_error err = {0};
    const char *first = NULL, *second = NULL;
    assert_ok(hs__map_add(&map, "x", 1, &first, &err), &err);
    assert_ok(hs__map_add(&map, "x", 2, &second, &err), &err);
    assert_ptr_equal(first, second);
    assert_int_equal(hs__map_find(&map, "x"), 1);
    assert_int_equal(map.n, 1);
}

static void a_part_of_a_text_is_found(void **state)
{
    (void)state;
    add("model", 1);
    add("", 2);
    assert_int_equal(hs__map_find_bytes(&map, "model.index", 5), 1);
    assert_int_equal(hs__map_find_bytes(&map, "model.index", 6), HS__NONE);
    assert_int_equal(hs__map_find_bytes(&map, "model.index", 4), HS__NONE);
    assert_int_equal(hs__map_find_bytes(&map, "model.index", 0), 2);
}

static void a_failed_add_does_not_change_the_map(void **state)
{
    (void)state;
    hs_error err = {0};
    for (size_t i = 0; i < 8; i++) /* the next one makes it grow */
        add(name_of(i), i);
    for (size_t n = 1; n <= 2; n++) {
        t.fail_alloc_at = t.allocations + n;
        assert_fails(hs__map_add(&map, "more", 99, NULL, &err), HS_RESOURCE_EXHAUSTED, &err, "");
        assert_int_equal(hs__map_find(&map, "more"), HS__NONE);
        assert_int_equal(hs__map_find(&map, name_of(7)), 7);
    }
    add("more", 99);
    assert_int_equal(hs__map_find(&map, "more"), 99);
}

static void a_freed_map_is_empty_and_usable(void **state)
{
    (void)state;
    add("x", 1);
    hs__map_free(&map);
    assert_int_equal(hs__map_find(&map, "x"), HS__NONE);
    add("y", 2);
    assert_int_equal(hs__map_find(&map, "y"), 2);
}

static void the_hash_includes_the_end_of_a_name(void **state)
{
    (void)state;
    uint64_t start = HS__HASH_START;
    assert_true(hs__hash(hs__hash(start, "a"), "bc") != hs__hash(hs__hash(start, "ab"), "c"));
    assert_true(hs__hash(hs__hash(start, ""), "a") != hs__hash(start, "a"));
}

static uint64_t hash_of(const uint64_t hash_key[2], const char *text)
{
    return hs__hash_keyed(hash_key, text, strlen(text));
}

static void the_keyed_hash_is_siphash_1_3(void **state)
{
    (void)state;
    const uint64_t none[2] = {0, 0}, other[2] = {0, 1};
    assert_true(hash_of(none, "a") == 0x407448d2b89b1813u);
    assert_true(hash_of(none, "weights") == 0xe8d0e1eb46e632aau);
    assert_true(hash_of(none, "layer_1/weights/more") == 0x46f0ce7326aaba84u);
    assert_true(hash_of(other, "a") != hash_of(none, "a"));
}

static uint64_t hash_in(const hs__map *of)
{
    size_t i = 0;
    while (!of->slots[i].name)
        i++;
    return of->slots[i].hash;
}

static void each_map_hashes_with_its_own_key(void **state)
{
    (void)state;
    hs__map second;
    hs__map_init(&second, &t.env);
    add("x", 1);
    assert_int_equal(hs__map_add(&second, "x", 1, NULL, NULL), HS_OK);
    assert_true(hash_in(&map) != hash_in(&second));
    hs__map_free(&second);
}

/* A sandbox may refuse random numbers. */
static void without_random_numbers_maps_have_a_key_too(void **state)
{
    (void)state;
    struct {
        hs__map map;
        uint64_t after[2];
    } maps[2] = {0};
    no_randomness = true;
    for (size_t i = 0; i < 2; i++) {
        hs__map_init(&maps[i].map, &t.env);
        assert_int_equal(hs__map_add(&maps[i].map, "x", 1, NULL, NULL), HS_OK);
        assert_true(maps[i].map.key[0] && maps[i].map.key[1]);
        assert_true(!maps[i].after[0] && !maps[i].after[1]);
        assert_int_equal(hs__map_find(&maps[i].map, "x"), 1);
    }
    assert_true(hash_in(&maps[0].map) != hash_in(&maps[1].map));
    for (size_t i = 0; i < 2; i++)
        hs__map_free(&maps[i].map);
}

static hs_code fill_map(test_env *env, void *user)
{
    (void)user;
    hs__map filled;
    hs__map_init(&filled, &env->env);
    hs_code code = HS_OK;
    for (size_t i = 0; i < 40 && !code; i++)
        code = hs__map_add(&filled, name_of(i), i, NULL, NULL);
    hs__map_free(&filled);
    return code;
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    test_each_allocation(fill_map, NULL);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(an_empty_map_finds_nothing),
        TEST(a_value_is_changed),
        TEST(thousands_of_names_are_found),
        TEST(names_differ_by_every_byte),
        TEST(the_name_is_copied_and_does_not_move),
        TEST(a_name_keeps_its_first_value),
        TEST(a_part_of_a_text_is_found),
        TEST(a_failed_add_does_not_change_the_map),
        TEST(a_freed_map_is_empty_and_usable),
        TEST(the_hash_includes_the_end_of_a_name),
        TEST(the_keyed_hash_is_siphash_1_3),
        TEST(each_map_hashes_with_its_own_key),
        TEST(without_random_numbers_maps_have_a_key_too),
        TEST(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

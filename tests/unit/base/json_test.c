/* SPDX-License-Identifier: Apache-2.0
 *
 * The JSON writer, against the grammar of RFC 8259 and against jansson as a second reader.
 */
#include <float.h>
#include <math.h>
#include "test.h"

#include <jansson.h>

#include "base/json.h"

static struct pst_json json;

static int begin(void **state)
{
    pst_json_init(&json);
    return 0;
}

static void expect(const char *text)
{
    char *got = pst_json_take(&json);

    assert_non_null(got);
    assert_string_equal(got, text);
    free(got);
}

TEST_WITH(empty_containers, begin, NULL)
{
    pst_json_object(&json, NULL);
    pst_json_array(&json, "a");
    pst_json_end(&json, ']');
    pst_json_object(&json, "o");
    pst_json_end(&json, '}');
    pst_json_end(&json, '}');
    expect("{\"a\":[],\"o\":{}}");
}

TEST_WITH(commas_and_nesting, begin, NULL)
{
    pst_json_array(&json, NULL);
    pst_json_int(&json, NULL, 1);
    pst_json_array(&json, NULL);
    pst_json_int(&json, NULL, 2);
    pst_json_int(&json, NULL, 3);
    pst_json_end(&json, ']');
    pst_json_object(&json, NULL);
    pst_json_bool(&json, "t", true);
    pst_json_bool(&json, "f", false);
    pst_json_string(&json, "n", NULL);
    pst_json_raw(&json, "r", "[0]");
    pst_json_end(&json, '}');
    pst_json_newline(&json);
    pst_json_int(&json, NULL, 4);
    pst_json_end(&json, ']');
    expect("[1,[2,3],{\"t\":true,\"f\":false,\"n\":null,\"r\":[0]}\n,4]");
}

TEST_WITH(integers_to_their_ends, begin, NULL)
{
    pst_json_array(&json, NULL);
    pst_json_int(&json, NULL, INT64_MIN);
    pst_json_int(&json, NULL, INT64_MAX);
    pst_json_uint(&json, NULL, UINT64_MAX);
    pst_json_end(&json, ']');
    expect("[-9223372036854775808,9223372036854775807,18446744073709551615]");
}

TEST(numbers_are_short)
{
    static const struct {
        double value;
        const char *text;
    } cases[] = {
        {0.0, "0"},          {1.0, "1"},
        {0.1, "0.1"},        {-2.5, "-2.5"},
        {1e100, "1e+100"},   {1e-5, "1e-05"},
        {123456, "123456"},  {1.0 / 3, "0.3333333333333333"},
        {NAN, "null"},       {INFINITY, "null"},
        {-INFINITY, "null"}, {0.1 + 0.2, "0.30000000000000004"},
        {5e-324, "5e-324"},  {-0.0, "-0"},
        {100000, "100000"},  {123456789012345, "123456789012345"},
        {1e15, "1e+15"},     {0.0001, "0.0001"},
        {12.5, "12.5"},      {0.00012345, "0.00012345"},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        pst_json_init(&json);
        pst_json_number(&json, NULL, cases[i].value);
        expect(cases[i].text);
    }
}

/* To the field's resolution and no further; 680 from a sum that is a bit below it. */
TEST(reals_of_a_resolution)
{
    const struct {
        double value;
        int decimals;
        const char *text;
    } cases[] = {{679.9999999999999, 3, "680"}, {1.0 / 3, 6, "0.333333"}, {2.5, 3, "2.5"},
                 {1234.5678, 0, "1235"},        {100, 3, "100"},          {-0.0001, 3, "0"},
                 {-12.34, 1, "-12.3"},          {1e300, 3, "1e+300"},     {NAN, 3, "null"}};

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        pst_json_init(&json);
        pst_json_real(&json, NULL, cases[i].value, cases[i].decimals);
        expect(cases[i].text);
    }
    pst_json_init(&json);
    pst_json_us(&json, NULL, 1234567);
    expect("1234.567");
}

static uint64_t next_bits(uint64_t *x)
{
    *x ^= *x << 13;
    *x ^= *x >> 7;
    *x ^= *x << 17;
    return *x;
}

static uint32_t count_digits(const char *text)
{
    uint32_t n = 0, zeros = 0;

    for (; *text != '\0' && *text != 'e'; text++) {
        if (*text >= '0' && *text <= '9' && (n > 0 || *text != '0')) {
            n++;
            zeros = *text == '0' ? zeros + 1 : 0;
        }
    }
    return n - zeros;
}

/* All bits come back, and one digit less (by printf, to nearest) is another number. */
static void expect_shortest(double value)
{
    char *text, less[40];
    double read;
    uint32_t n;

    pst_json_init(&json);
    pst_json_number(&json, NULL, value);
    text = pst_json_take(&json);
    read = strtod(text, NULL);
    assert_memory_equal(&read, &value, sizeof read);
    n = count_digits(text);
    if (n > 1) {
        snprintf(less, sizeof less, "%.*e", (int)n - 2, value);
        assert_true(strtod(less, NULL) != value);
    }
    free(text);
}

TEST(numbers_come_back_exactly)
{
    static const double ends[] = {0.0,
                                  -0.0,
                                  5e-324,
                                  -5e-324,
                                  DBL_MIN,
                                  DBL_MAX,
                                  -DBL_MAX,
                                  DBL_EPSILON,
                                  999999999999999.0,
                                  1e15,
                                  1e16,
                                  9007199254740993.0,
                                  123456789012345678.0,
                                  1e22,
                                  1e23,
                                  9.5e-5,
                                  1e-4,
                                  0.00012345};
    uint64_t seed = 0x9E3779B97F4A7C15u, x = seed;

    printf("seed %llx\n", (unsigned long long)seed);
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        expect_shortest(ends[i]);
        expect_shortest(nextafter(ends[i], 0));
        expect_shortest(nextafter(ends[i], DBL_MAX));
    }
    for (int i = 0; i < 60000; i++) { /* any bits, subnormals, a whole number or nearly one */
        uint64_t bits = next_bits(&x);
        double value;

        bits &= i % 3 == 1 ? UINT64_C(0x800FFFFFFFFFFFFF) : UINT64_MAX;
        memcpy(&value, &bits, sizeof value);
        value = i % 3 == 2 ? (double)(int64_t)bits / (double)(1u << (bits & 31)) : value;
        if (isfinite(value)) {
            expect_shortest(value);
        }
    }
}

TEST_WITH(escapes, begin, NULL)
{
    pst_json_object(&json, NULL);
    pst_json_string(&json, "a\"b", "\\ / \b\f\n\r\t \x01\x1f\x7f");
    pst_json_end(&json, '}');
    expect("{\"a\\\"b\":\"\\\\ / \\b\\f\\n\\r\\t \\u0001\\u001f\\u007f\"}");
}

/* What may be shown on a terminal has no direction marks and no C1; other characters stay. */
TEST_WITH(marks_are_escaped, begin, NULL)
{
    pst_json_array(&json, NULL);
    pst_json_string(&json, NULL, "\xE2\x80\xAE\xC2\x9B\xEF\xBB\xBF\xC3\xA4\xE2\x80\x8D");
    pst_json_end(&json, ']');
    expect("[\"\\u202e\\u009b\\ufeff\xC3\xA4\xE2\x80\x8D\"]");
}

/* RFC 3629: no overlong forms, no surrogates, nothing above U+10FFFF, no lone or missing parts. */
TEST(broken_utf8_is_replaced)
{
    static const struct {
        const char *in, *out;
    } cases[] = {
        {"\xC3\xA9", "\"\xC3\xA9\""},
        {"\xE2\x82\xAC", "\"\xE2\x82\xAC\""},
        {"\xF0\x9F\x98\x80", "\"\xF0\x9F\x98\x80\""},
        {"\xFF", "\"\xEF\xBF\xBD\""},
        {"\x80", "\"\xEF\xBF\xBD\""},
        {"\xC3", "\"\xEF\xBF\xBD\""},
        {"\xC3(", "\"\xEF\xBF\xBD(\""},
        {"\xE2\x82(", "\"\xEF\xBF\xBD(\""},
        {"\xC0\xAF", "\"\xEF\xBF\xBD\xEF\xBF\xBD\""},
        {"\xED\xA0\x80", "\"\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\""},
        {"\xF4\x90\x80\x80", "\"\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\""},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        pst_json_init(&json);
        pst_json_string(&json, NULL, cases[i].in);
        expect(cases[i].out);
    }
}

TEST(every_string_is_read_back)
{
    char text[128];
    size_t n = 0;
    json_t *read;
    char *written;

    for (int c = 1; c < 128; c++) {
        text[n++] = (char)c;
    }
    text[n] = '\0';
    pst_json_init(&json);
    pst_json_array(&json, NULL);
    pst_json_string(&json, NULL, text);
    pst_json_end(&json, ']');
    written = pst_json_take(&json);
    read = json_loads(written, 0, NULL);
    assert_non_null(read);
    assert_string_equal(json_string_value(json_array_get(read, 0)), text);
    json_decref(read);
    free(written);
}

TEST_WITH(too_deep_fails_for_good, begin, NULL)
{
    for (int i = 0; i < 100; i++) {
        pst_json_array(&json, NULL);
    }
    assert_true(json.failed);
    for (int i = 0; i < 100; i++) {
        pst_json_end(&json, ']');
    }
    assert_null(pst_json_take(&json));
    assert_null(json.text);
}

TEST_WITH(unfinished_gives_nothing, begin, NULL)
{
    pst_json_object(&json, NULL);
    pst_json_int(&json, "a", 1);
    assert_null(pst_json_take(&json));
    pst_json_finish(&json);
}

TEST(grows_past_any_block)
{
    char *text;
    json_t *read;

    pst_json_init(&json);
    pst_json_array(&json, NULL);
    for (int i = 0; i < 50000; i++) {
        pst_json_int(&json, NULL, i);
    }
    pst_json_end(&json, ']');
    text = pst_json_take(&json);
    read = json_loads(text, 0, NULL);
    assert_int_equal(json_array_size(read), 50000);
    assert_int_equal(json_integer_value(json_array_get(read, 49999)), 49999);
    json_decref(read);
    free(text);
}

/* What was written out and what is left are the text that a writer in memory has. */
TEST(a_stream_writes_the_same_text)
{
    const char *const long_text = "a text that is no multiple of any buffer, \x01 included";
    char *written = NULL, *whole;
    size_t length = 0;
    FILE *out = open_memstream(&written, &length);
    struct pst_json streamed;

    pst_json_init(&json);
    pst_json_init(&streamed);
    for (int w = 0; w < 2; w++) {
        struct pst_json *writer = w == 0 ? &json : &streamed;

        pst_json_array(writer, NULL);
        pst_json_string(writer, NULL, "before");
        if (w == 1) {
            pst_json_stream(writer, out);
        }
        for (int i = 0; i < 20000; i++) {
            pst_json_string(writer, NULL, long_text);
            pst_json_number(writer, NULL, i / 7.0);
        }
        pst_json_end(writer, ']');
    }
    fflush(out);
    assert_true(length > 1000000 && streamed.capacity < length / 4);
    fwrite(streamed.text, 1, streamed.length, out);
    assert_int_equal(fclose(out), 0);
    whole = pst_json_take(&json);
    assert_string_equal(written, whole);
    pst_json_finish(&streamed);
    free(written);
    free(whole);
}

/* A real number stays one, whatever its digits, and no longer than it must be. */
TEST(values_of_jansson_are_read_back_as_they_were)
{
    static const char *const texts[] = {
        "{\"a\":[0.1,1.0,-2.5,1e300,5e-324,0.1234567890123457],\"b\":{\"c\":[],\"d\":{}}}",
        "[9007199254740993,-9223372036854775808,true,false,null,\"\\u0001\\\"\\\\ \\u007f\"]",
        "[0.30000000000000004,1e16,1e22,123456789012345680.0]",
    };

    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        json_t *value = json_loads(texts[i], 0, NULL), *again;
        char *text = pst_json_text(value);

        again = json_loads(text, 0, NULL);
        assert_true(json_equal(value, again));
        json_decref(again);
        json_decref(value);
        if (i == 0) {
            assert_non_null(strstr(text, "[0.1,1.0,-2.5,"));
        }
        free(text);
    }
}

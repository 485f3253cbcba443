/* SPDX-License-Identifier: Apache-2.0
 *
 * Safetensors files against the bytes that Hugging Face's package (0.8.0) writes, and files that
 * break one rule each.
 */
#include "test.h"

#include <fcntl.h>
#include <math.h>
#include <unistd.h>

#include "base/text.h"
#include "weights/safetensors.h"
#include "support.h"

/* safetensors.torch.save({"b": tensor([1.5, -2, 65504], f16), "a": tensor([[1, 2, 3], [4, 5, 6]]),
   "s": tensor(7), "none": zeros(0, 3), "c": tensor([1, -3.140625], bf16), "d": tensor([.1], f64)},
   metadata={"format": "pt"}) */
static const char header[] =
    "{\"__metadata__\":{\"format\":\"pt\"},"
    "\"s\":{\"dtype\":\"I64\",\"shape\":[],\"data_offsets\":[0,8]},"
    "\"d\":{\"dtype\":\"F64\",\"shape\":[1],\"data_offsets\":[8,16]},"
    "\"a\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[16,40]},"
    "\"none\":{\"dtype\":\"F32\",\"shape\":[0,3],\"data_offsets\":[40,40]},"
    "\"c\":{\"dtype\":\"BF16\",\"shape\":[2],\"data_offsets\":[40,44]},"
    "\"b\":{\"dtype\":\"F16\",\"shape\":[3],\"data_offsets\":[44,50]}}  ";
static const unsigned char data[50] = {
    7,    0,    0,    0, 0,    0,    0,    0,    0x9a, 0x99, 0x99, 0x99, 0x99, 0x99, 0xb9, 0x3f, 0,
    0,    0x80, 0x3f, 0, 0,    0,    0x40, 0,    0,    0x40, 0x40, 0,    0,    0x80, 0x40, 0,    0,
    0xa0, 0x40, 0,    0, 0xc0, 0x40, 0x80, 0x3f, 0x49, 0xc0, 0,    0x3e, 0,    0xc0, 0xff, 0x7b};
static const struct pst_st_tensor tensors[] = {
    {.name = "b", .dtype = PST_ST_F16, .rank = 1, .shape = {3}},
    {.name = "a", .dtype = PST_ST_F32, .rank = 2, .shape = {2, 3}},
    {.name = "s", .dtype = PST_ST_I64},
    {.name = "none", .dtype = PST_ST_F32, .rank = 2, .shape = {0, 3}},
    {.name = "c", .dtype = PST_ST_BF16, .rank = 1, .shape = {2}},
    {.name = "d", .dtype = PST_ST_F64, .rank = 1, .shape = {1}}};
enum { TENSORS = sizeof tensors / sizeof *tensors };

static void write_bytes(const char *name, const void *bytes, size_t n)
{
    FILE *file = fopen(support_path(name), "wb");

    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, n, file), n);
    assert_int_equal(fclose(file), 0);
}

/* A file of a header and as many bytes of zeros, or of `bytes`. */
static void write_file(const char *name, const char *text, const void *bytes, size_t n)
{
    size_t length = strlen(text);
    char *all = calloc(8 + length + n, 1);

    assert_non_null(all);
    for (int i = 0; i < 8; i++) {
        all[i] = (char)(length >> 8 * i);
    }
    memcpy(all + 8, text, length);
    if (bytes != NULL) {
        memcpy(all + 8 + length, bytes, n);
    }
    write_bytes(name, all, 8 + length + n);
    free(all);
}

static pst_status open_file(const char *name, struct pst_st_file **ret, struct pst_error *err)
{
    int folder = open(support_folder, O_RDONLY | O_DIRECTORY);
    pst_status st = pst_st_open(folder, name, support_path(name), ret, err);

    close(folder);
    return st;
}

static void expect_f32(const struct pst_st_file *file, const char *name, uint64_t first, uint64_t n,
                       const float *expected)
{
    const struct pst_st_tensor *tensor = pst_st_find(file, name);
    struct pst_error err;
    float values[8];

    assert_non_null(tensor);
    assert_ok(pst_st_read_f32(file, tensor, first, n, values, &err), &err);
    assert_memory_equal(values, expected, n * sizeof *values);
}

TEST_WITH(a_file_of_the_package_is_read, support_begin, support_end)
{
    struct pst_st_file *file = NULL;
    const struct pst_st_tensor *a;
    struct pst_error err;
    char text[64];
    float none;

    write_file("x", header, data, sizeof data);
    assert_ok(open_file("x", &file, &err), &err);
    assert_int_equal(file->n, TENSORS);
    assert_string_equal(file->tensors[0].name, "a");
    assert_string_equal(file->tensors[TENSORS - 1].name, "s");
    a = pst_st_find(file, "a");
    assert_int_equal(a->elems, 6);
    assert_string_equal(pst_shape_text(text, sizeof text, a->rank, a->shape), "[2, 3]");
    assert_string_equal(pst_shape_text(text, sizeof text, pst_st_find(file, "s")->rank, NULL),
                        "[]");
    assert_null(pst_st_find(file, "e"));
    expect_f32(file, "a", 1, 4, (float[]){2, 3, 4, 5});
    expect_f32(file, "b", 0, 3, (float[]){1.5f, -2, 65504});
    expect_f32(file, "c", 1, 1, (float[]){-3.140625f});
    expect_f32(file, "d", 0, 1, (float[]){0.1f});
    assert_int_equal(pst_st_read_f32(file, pst_st_find(file, "s"), 0, 1, &none, &err),
                     PST_ERR_CONFIG);
    assert_string_equal(err.kind, "input.unsupported");
    assert_string_equal(err.message, "tensor \"s\": dtype I64 is not one of real numbers");
    assert_int_equal(truncate(support_path("x"), 300), 0); /* shrinks while it is open */
    assert_int_equal(pst_st_read_f32(file, a, 0, 6, (float[6]){0}, &err), PST_ERR_IO);
    assert_string_equal(err.message, "cannot read byte 392: the file ends there");
    pst_st_close(file);
}

TEST_WITH(what_is_written_is_what_the_package_writes, support_begin, support_end)
{
    const struct pst_st_pair pair = {"format", "pt"};
    static const uint64_t begins[] = {44, 16, 0, 40, 40, 8};
    struct pst_st_writer *writer = NULL;
    struct pst_error err;
    uint64_t n = 0;
    char *bytes;

    assert_ok(pst_st_create(support_path("y"), tensors, TENSORS, &pair, 1, &writer, &err), &err);
    assert_int_equal(pst_st_file_bytes(writer), 426);
    assert_memory_equal((const char *)pst_st_header(writer, &n) + 8, header, sizeof header - 1);
    assert_int_equal(n, 376);
    assert_true(access(support_path("y"), F_OK) != 0);
    for (uint32_t i = 0; i < TENSORS; i++) {
        const struct pst_st_tensor *place = pst_st_place(writer, i);

        assert_int_equal(place->begin, begins[i]);
        for (uint64_t at = 0; at < place->bytes; at++) { /* in pieces, from the last */
            assert_ok(pst_st_write(writer, i, place->bytes - 1 - at,
                                   data + place->begin + place->bytes - 1 - at, 1, &err),
                      &err);
        }
    }
    assert_ok(pst_st_finish(writer, &err), &err);
    bytes = support_read(support_path("y"));
    assert_int_equal(((unsigned char *)bytes)[0], 0x70);
    assert_memory_equal(bytes + 8, header, sizeof header - 1);
    assert_memory_equal(bytes + 8 + sizeof header - 1, data, sizeof data);
    free(bytes);
}

TEST_WITH(what_is_given_up_leaves_nothing, support_begin, support_end)
{
    struct pst_st_writer *writer = NULL;
    struct pst_error err;

    assert_ok(pst_st_create(support_path("z"), tensors, TENSORS, NULL, 0, &writer, &err), &err);
    pst_st_abandon(writer);
    assert_int_equal(rmdir(support_folder), 0);
    assert_int_equal(mkdir(support_folder, 0700), 0);
    assert_int_equal(pst_st_create(support_path("no/z"), tensors, 1, NULL, 0, &writer, &err),
                     PST_ERR_IO);
    assert_string_equal(err.kind, "output.write");
}

/* Every finite f16 is a multiple of 2^-24; IEEE 754's fields say which. */
TEST_WITH(all_f16_are_converted, support_begin, support_end)
{
    static uint16_t all[1 << 16];
    static float values[1 << 16];
    struct pst_st_file *file = NULL;
    struct pst_error err;

    for (uint32_t i = 0; i < 1 << 16; i++) {
        all[i] = (uint16_t)i;
    }
    write_file("h", "{\"h\":{\"dtype\":\"F16\",\"shape\":[65536],\"data_offsets\":[0,131072]}}",
               all, sizeof all);
    assert_ok(open_file("h", &file, &err), &err);
    assert_ok(pst_st_read_f32(file, file->tensors, 0, 1 << 16, values, &err), &err);
    pst_st_close(file);
    for (uint32_t i = 0; i < 1 << 16; i++) {
        int exponent = i >> 10 & 31, fraction = i & 1023;
        double size = exponent == 0 ? ldexp(fraction, -24) : ldexp(1024 + fraction, exponent - 25);

        if (exponent == 31 && fraction != 0) {
            assert_true(isnan(values[i]));
            continue;
        }
        size = exponent == 31 ? (double)INFINITY : size;
        assert_true((double)values[i] == (i >> 15 ? -size : size));
        assert_int_equal(signbit(values[i]) != 0, i >> 15);
    }
}

static void expect_refusal(const char *kind, const char *message)
{
    struct pst_st_file *file = NULL;
    struct pst_error err = {0};

    assert_int_not_equal(open_file("bad", &file, &err), PST_OK);
    assert_null(file);
    assert_string_equal(err.message, message);
    assert_string_equal(err.kind, kind);
    assert_string_equal(err.file, support_path("bad"));
}

#define ONE(dtype, shape, offsets)                                                                 \
    "{\"t\":{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":" offsets "}}"
#define PAIR(one, other)                                                                           \
    "{\"t\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":" one                                 \
    "},\"u\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":" other "}}"

TEST_WITH(files_that_break_a_rule_are_refused, support_begin, support_end)
{
    static const struct {
        const char *text;
        size_t n;
        const char *kind, *message;
    } bad[] = {
        {"[]", 0, "input.syntax", "byte 8: the header must begin with {"},
        {" {}", 0, "input.syntax", "byte 8: the header must begin with {"},
        {"{\"t\":", 0, "input.syntax", "byte 5 of the header: unexpected token near end of file"},
        {"{\"t\":1}", 0, "input.syntax", "tensor \"t\": it is not an object"},
        {"{\"__metadata__\":{\"a\":1}}", 0, "input.syntax", "__metadata__: \"a\" is not a string"},
        {"{\"__metadata__\":[]}", 0, "input.syntax", "__metadata__ is not an object"},
        {"{\"a\":[[[[1]]]]}", 0, "input.limit", "byte 16: brackets nested more than 4 deep"},
        {ONE("F4", "[2]", "[0,1]"), 1, "input.unsupported",
         "tensor \"t\": dtype F4 cannot be read; F32, F16, BF16, F64 and integers can"},
        {ONE("F32", "[1.0]", "[0,4]"), 4, "input.syntax",
         "tensor \"t\": shape[0] is not a number from 0"},
        {ONE("F32", "[-1]", "[0,4]"), 4, "input.syntax",
         "tensor \"t\": shape[0] is not a number from 0"},
        {ONE("F32", "[4294967296,4294967296]", "[0,0]"), 0, "input.limit",
         "tensor \"t\": its size overflows"},
        {ONE("F32", "[4611686018427387904]", "[0,0]"), 0, "input.limit",
         "tensor \"t\": its size overflows"},
        {ONE("F32", "[1,1,1,1,1,1,1,1,1]", "[0,4]"), 4, "input.limit",
         "tensor \"t\": more than 8 dimensions"},
        {ONE("F32", "1", "[0,4]"), 4, "input.syntax", "tensor \"t\": it has no shape"},
        {ONE("F32", "[1]", "[0]"), 4, "input.syntax",
         "tensor \"t\": it has no data_offsets of two numbers"},
        {ONE("F32", "[1]", "[0,8]"), 8, "input.syntax",
         "tensor \"t\": its shape needs 4 bytes, data_offsets give it 8"},
        {ONE("F32", "[2]", "[0,8]"), 7, "input.syntax",
         "tensor \"t\": data_offsets [0, 8] are not within the 7 bytes of data; is the file "
         "truncated?"},
        {ONE("F32", "[2]", "[8,0]"), 8, "input.syntax",
         "tensor \"t\": data_offsets [8, 0] are not within the 8 bytes of data"},
        {ONE("F32", "[2]", "[0,8]"), 9, "input.syntax", "1 bytes of data belong to no tensor"},
        {PAIR("[1,5]", "[5,9]"), 9, "input.syntax",
         "tensor \"t\": it begins at byte 1 of the data, the tensor before ends at 0"},
        {PAIR("[0,4]", "[5,9]"), 9, "input.syntax",
         "tensor \"u\": it begins at byte 5 of the data, the tensor before ends at 4"},
        {PAIR("[0,4]", "[3,7]"), 7, "input.syntax",
         "tensor \"u\": it begins at byte 3 of the data, the tensor before ends at 4"},
        {"{\"t\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[0,1]},"
         "\"t\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[0,1]}}",
         1, "input.syntax", "byte 55 of the header: duplicate object key near '\"t\"'"},
    };

    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        write_file("bad", bad[i].text, NULL, bad[i].n);
        expect_refusal(bad[i].kind, bad[i].message);
    }
    write_bytes("bad", "\7\0\0\0", 4);
    expect_refusal("input.syntax", "not a safetensors file: it has only 4 bytes");
    write_bytes("bad", "\3\0\0\0\0\0\0\0{}", 10);
    expect_refusal("input.syntax", "truncated: the header has 3 bytes, the file 10");
    write_bytes("bad", "PK\3\4\0\0\0\0\0\0\0\0", 12);
    expect_refusal("input.syntax", "truncated: the header has 67324752 bytes, the file 12");
    write_bytes("bad", "\377\377\377\377\377\377\377\377{}", 10);
    expect_refusal("input.limit", "not a safetensors file: its first 8 bytes give the header "
                                  "18446744073709551615 bytes, more than 100000000");
}

TEST_WITH(only_plain_files_of_the_folder_are_opened, support_begin, support_end)
{
    struct pst_st_file *file = NULL;
    struct pst_error err;

    write_file("x", header, data, sizeof data);
    assert_int_equal(symlink("x", support_path("bad")), 0);
    expect_refusal("input.path", "cannot open the file: it is a symbolic link");
    assert_int_equal(unlink(support_path("bad")), 0);
    expect_refusal("input.path", "cannot open the file: No such file or directory");
    assert_int_equal(mkdir(support_path("bad"), 0700), 0);
    expect_refusal("input.path", "not a regular file");
    assert_int_equal(open_file("../x", &file, &err), PST_ERR_CONFIG);
    assert_string_equal(err.message, "\"../x\" is not a plain file name");
    assert_int_equal(open_file("..", &file, &err), PST_ERR_CONFIG);
    assert_int_equal(open_file("", &file, &err), PST_ERR_CONFIG);
}

/* Headers are read in two ways: as writers write them, and by a general parser. */
TEST_WITH(both_readers_of_headers_agree, support_begin, support_end)
{
    static const char *const headers[] = {
        "{\"a\":{\"dtype\":\"F32\",\"shape\":[2,1],\"data_offsets\":[0,8]},"
        "\"b\":{\"dtype\":\"BF16\",\"shape\":[],\"data_offsets\":[8,10]}}",
        "{ \"__metadata__\": {\"x\": \"y\"}, \"b\": {\"shape\": [], \"data_offsets\": [8, 10], "
        "\"dtype\": \"BF16\"},\n \"a\": {\"dtype\": \"F32\", \"shape\": [2, 1], \"data_offsets\": "
        "[0, 8]}}   ",
        /* these are for the general one */
        "{\"\\u0061\":{\"dtype\":\"F32\",\"shape\":[2,1],\"data_offsets\":[0,8]},"
        "\"b\":{\"dtype\":\"BF16\",\"shape\":[],\"data_offsets\":[8,10]}}",
        "{\"a\":{\"dtype\":\"F32\",\"shape\":[2,1],\"data_offsets\":[0,8],\"more\":null},"
        "\"b\":{\"dtype\":\"BF16\",\"shape\":[],\"data_offsets\":[8,10]}}",
    };
    static const char *const bad[][2] = {
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
         "\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}",
         "duplicate object key"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[01],\"data_offsets\":[0,8]}}", "invalid token"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[3],\"data_offsets\":[0,8]}}",
         "its shape needs 12 bytes, data_offsets give it 8"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}",
         "it begins at byte 4 of the data"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}} x", "end of file"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[4294967296,4294967296],\"data_offsets\":[0,8]}}",
         "its size overflows"},
    };
    struct pst_st_file *file = NULL;
    struct pst_error err;

    for (size_t i = 0; i < sizeof headers / sizeof *headers; i++) {
        write_file("x", headers[i], NULL, 10);
        assert_ok(open_file("x", &file, &err), &err);
        assert_int_equal(file->n, 2);
        assert_string_equal(file->tensors[0].name, "a");
        assert_int_equal(file->tensors[0].dtype, PST_ST_F32);
        assert_int_equal(file->tensors[0].rank, 2);
        assert_int_equal(file->tensors[0].elems, 2);
        assert_int_equal(file->tensors[0].bytes, 8);
        assert_int_equal(file->tensors[1].rank, 0);
        assert_int_equal(file->tensors[1].elems, 1);
        assert_int_equal(file->tensors[1].begin, 8);
        pst_st_close(file);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        write_file("x", bad[i][0], NULL, 8);
        assert_int_equal(open_file("x", &file, &err), PST_ERR_CONFIG);
        if (strstr(err.message, bad[i][1]) == NULL) {
            fail_msg("%s: %s", bad[i][0], err.message);
        }
    }
}

/* As many tensors as a hub's largest files have. */
TEST_WITH(a_large_header_is_read_whole, support_begin, support_end)
{
    const uint32_t n = 400000, each = 230;
    char *text = malloc((size_t)n * (each + 1) + 2), *at = text;
    struct pst_st_file *file = NULL;
    struct pst_error err;

    assert_non_null(text);
    for (uint32_t i = 0; i < n; i++) {
        at += sprintf(at, "%c\"%0150u\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[%u,%u]}",
                      i == 0 ? '{' : ',', i, 4 * i, 4 * i + 4);
    }
    memcpy(at, "}", 2);
    write_file("x", text, NULL, 4 * (size_t)n);
    assert_ok(open_file("x", &file, &err), &err);
    assert_int_equal(file->n, n);
    pst_st_close(file);
    free(text);
}

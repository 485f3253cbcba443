/* SPDX-License-Identifier: Apache-2.0
 *
 * Plan files: the same bytes after a round trip, a clean refusal of everything else, with the
 * place.
 */
#include "unit/plan/groups.h"
#include "unit/prove/rig.h"

#include <fcntl.h>
#include <unistd.h>

#define CONFIG                                                                                     \
    "{ \"model\": {\"use\":\"gpt\",\"odd\":\"} ] , \\\" :\"},\n \"x\":[1, {\"config\":2}] }"

static char folder[64], file[96];

static void open_rig(struct rig *rig, uint64_t seed)
{
    rig_open(rig, "gpt", "layers=2 dim=8 heads=2 context=4 vocab=7", seed);
}

static void make_plan(struct rig *rig)
{
    struct rig_shape shape = rig_draw_shape(rig);
    rig_plan(rig, &shape);
    rig->plan->config_json = CONFIG;
    rig->plan->partitioner = "uniform 1.0";
    rig->plan->scheduler = "1f1b \"quoted\" 1.0";
    rig->plan->step_ns = 1234567;
    for (uint32_t s = 0; s < rig->plan->n_stages; s++) {
        struct pst_plan_stage *stage = &rig->plan->stages[s];

        pst_plan_count(rig->plan, s, &stage->in_flight, &stage->k);
    }
}

static void write_text(const char *text, size_t length)
{
    FILE *out = fopen(file, "wb");
    assert_non_null(out);
    assert_int_equal(fwrite(text, 1, length, out), length);
    assert_int_equal(fclose(out), 0);
}

static pst_status read_text(const struct rig *rig, const char *text, struct pst_error *err)
{
    struct pst_plan *plan = NULL;
    *err = (struct pst_error){0};
    write_text(text, strlen(text));
    pst_status status = pst_plan_read(file, rig->graph, &plan, err);
    assert_true((status == PST_OK) == (plan != NULL));
    pst_plan_destroy(plan);
    return status;
}

/* text with the first `old` replaced; free() it */
static char *with(const char *text, const char *old, const char *new)
{
    const char *at = strstr(text, old);
    size_t room = strlen(text) + strlen(new) + 1;
    char *copy = malloc(room);
    if (at == NULL) {
        fail_msg("the text has no %s", old);
    }
    snprintf(copy, room, "%.*s%s%s", (int)(at - text), text, new, at + strlen(old));
    return copy;
}

TEST(round_trip)
{
    FINISHED_BY(rig_close) struct rig rig;
    static struct pst_check_report report;
    open_rig(&rig, 7);
    for (uint32_t i = 0; i < 40; i++) {
        struct pst_error err = {0};
        struct pst_plan *read = NULL, *made;
        make_plan(&rig);
        rig.plan->capacity_bytes = i % 3 == 0   ? UINT64_MAX
                                   : i % 3 == 1 ? 1u << 30
                                                : (1ull << 60) + 1;
        for (uint32_t r = 0; i % 3 != 0 && i % 2 == 1 && r < rig.plan->n_devices; r++) {
            rig.plan->devices[r].lacks_bytes = r * 4097;
            rig.plan->devices[r].kind = r % 2 == 0 ? "even" : "odd";
        }
        char *first = pst_plan_to_json(rig.plan, rig.graph);
        assert_int_equal(pst_plan_write(rig.plan, rig.graph, file, &err), PST_OK);
        if (pst_plan_read(file, rig.graph, &read, &err) != PST_OK) {
            fail_msg("plan %u: %s\n%s", i, err.message, first);
        }
        char *second = pst_plan_to_json(read, rig.graph);
        assert_string_equal(first, second);
        assert_int_equal(read->capacity_bytes, rig.plan->capacity_bytes);
        for (uint32_t r = 0; r < rig.plan->n_devices; r++) {
            assert_int_equal(pst_plan_capacity(read, r), pst_plan_capacity(rig.plan, r));
        }
        assert_int_equal(read->step_ns, 1234567);
        assert_string_equal(read->config_json, CONFIG);
        assert_string_equal(read->scheduler, rig.plan->scheduler);
        assert_null(read->memopt);
        /* what was read is as legal as what was made, buffers included */
        made = rig.plan;
        rig.plan = read;
        rig_programs(&rig);
        if (rig_check(&rig, true, &report, &err) != PST_OK) {
            fail_msg("plan %u: %s\n%s", i, err.message, err.details);
        }
        rig_drop_plan(&rig);
        rig.plan = made;
        rig_drop_plan(&rig);
        free(first);
        free(second);
    }
}

/* The digest is of what a plan does: of a copy the same, whoever is said to have made it; of any
   other pass, action or wait another. */
TEST(digest)
{
    FINISHED_BY(rig_close) struct rig rig;
    struct pst_error err = {0};
    struct pst_plan *read = NULL;
    struct pst_hash before, after;

    open_rig(&rig, 9);
    make_plan(&rig);
    before = pst_plan_digest(rig.plan);
    assert_int_equal(pst_plan_write(rig.plan, rig.graph, file, &err), PST_OK);
    assert_int_equal(pst_plan_read(file, rig.graph, &read, &err), PST_OK);
    read->memopt = "full 1.0";
    read->step_ns++;
    after = pst_plan_digest(read);
    assert_true(pst_hash_equal(&before, &after));
    ((uint8_t *)read->stages[0].actions)[0] ^= 1;
    after = pst_plan_digest(read);
    assert_false(pst_hash_equal(&before, &after));
    ((uint8_t *)read->stages[0].actions)[0] ^= 1;
    ((struct pst_instr *)read->devices[0].body)[0].microbatch++;
    after = pst_plan_digest(read);
    assert_false(pst_hash_equal(&before, &after));
    pst_plan_destroy(read);
    rig_drop_plan(&rig);
}

TEST(config_alone)
{
    FINISHED_BY(rig_close) struct rig rig;
    struct pst_error err = {0};
    char *config = NULL;
    open_rig(&rig, 8);
    make_plan(&rig);
    char *text = pst_plan_to_json(rig.plan, rig.graph);
    write_text(text, strlen(text));
    assert_int_equal(pst_plan_read_config(file, &config, &err), PST_OK);
    assert_string_equal(config, CONFIG);
    free(config);

    char *none = with(text, CONFIG, "null");
    write_text(none, strlen(none));
    assert_int_equal(pst_plan_read_config(file, &config, &err), PST_ERR_CONFIG);
    assert_string_equal(err.kind, "input.syntax");
    assert_int_equal(read_text(&rig, none, &err), PST_OK);
    free(none);

    char *bad = with(text, "[1, {", "[1 {");
    write_text(bad, strlen(bad));
    assert_int_equal(pst_plan_read_config(file, &config, &err), PST_ERR_CONFIG);
    assert_string_equal(err.kind, "input.syntax");
    free(bad);
    free(text);
    assert_int_equal(pst_plan_read_config("/nonexistent/plan.json", &config, &err), PST_ERR_IO);
}

TEST(truncation)
{
    FINISHED_BY(rig_close) struct rig rig;
    struct pst_error err;
    struct rig_shape shape = {.devices = 2, .chunks = 1, .batch = 2, .microbatch = 2};
    open_rig(&rig, 9);
    rig_plan(&rig, &shape);
    char *text = pst_plan_to_json(rig.plan, rig.graph);
    size_t length = strlen(text);
    assert_int_equal(read_text(&rig, text, &err), PST_OK);
    for (size_t n = 0; n < length - 1; n++) { /* the last byte is a line feed */
        struct pst_plan *plan = NULL;
        err = (struct pst_error){0};
        write_text(text, n);
        if (pst_plan_read(file, rig.graph, &plan, &err) != PST_ERR_CONFIG) {
            fail_msg("cut to %zu of %zu bytes: accepted", n, length);
        }
        assert_string_equal(err.kind, "input.syntax");
        assert_string_equal(err.file, file);
        assert_true(err.message[0] != '\0');
    }
    free(text);
}

struct damage {
    const char *old, *new;    /* replacement in the text */
    const char *kind, *place; /* what the refusal must say */
};

static const struct damage damages[] = {
    {"penstock-plan", "penstock-plot", "input.syntax", "penstock-plan"},
    {"\"version\":1", "\"version\":2", "input.unsupported", "version 2"},
    {"\"mode\":\"sync\"", "\"mode\":\"async\"", "input.unsupported", "async"},
    {"\"batch\":4", "\"batch\":-4", "input.syntax", "batch: -4"},
    {"\"batch\":4", "\"batch\":4,\"batch\":4", "input.syntax", "duplicate"},
    {"\"batch\":4", "\"batch\":4.5", "input.syntax", "batch"},
    {"\"batch\":4", "\"batch\":NaN", "input.syntax", ""},
    {"\"batch\":4", "\"batch\":4,\"extra\":1", "input.syntax", "extra"},
    {"\"batch\":4", "\"batch\":4294967295", "input.syntax", "batch"},
    {"\"batch\":4", "\"batch\":2147483648", "input.limit", "stages[0]"},
    {"\"microbatch_size\":2", "\"microbatch_size\":0", "input.syntax", "stages[0]"},
    {"\"id\":1", "\"id\":2", "input.syntax", "stages[1]"},
    {"\"rank\":1", "\"rank\":0", "input.syntax", "devices[1]"},
    {"\"devices\":[1]", "\"devices\":[\"1\"]", "input.syntax", "stages[1].devices[0]"},
    {"\"graph_digest\":\"", "\"graph_digest\":\"x", "input.syntax", "graph_digest"},
    {"\"capacity_bytes\":null", "\"capacity_bytes\":\"12\"", "input.syntax", "capacity_bytes"},
    {"\"capacity_bytes\":null", "\"capacity_bytes\":9007199254740992", "input.syntax",
     "capacity_bytes"},
    {"[\"F\",0,0]", "[\"G\",0,0]", "input.syntax", "devices[0].body[0]"},
    {"[\"F\",0,0]", "[\"F\",0]", "input.syntax", "devices[0].body[0]"},
    {"[\"F\",0,0]", "[\"F\",0,0,0]", "input.syntax", "devices[0].body[0]"},
    {"[\"F\",0,0]", "[\"F\",0,-1]", "input.syntax", "devices[0].body[0][2]"},
    {"[\"F\",0,0]", "[]", "input.syntax", "devices[0].body[0]"},
    {"[\"F\",0,0]", "7", "input.syntax", "devices[0].body[0]"},
    {"[\"F\",0,0]", "[\"F\",0,0,{\"waits\":[]}]", "input.syntax", "devices[0].body[0][3].waits"},
    {"[\"F\",0,0]", "[\"F\",0,0,{\"wait\":[1]}]", "input.syntax", "devices[0].body[0]"},
    {"\"act\"", "\"grad \"", "input.syntax", "body["},
    {"\"fill\":[]", "\"fill\":[[\"NORM\"]]", "input.unsupported", "devices[0]"},
    {"\"recompute\":[]", "\"recompute\":[\"nothing\"]", "input.syntax", "stages["},
    {"\"parameter\":\"", "\"parameter\":\"x", "input.syntax", "ties[0]"},
    {"\"tensors\":[\"", "\"tensors\":[\"x", "input.syntax", "edges[0]"},
    {"\"step_us\":", "\"step_us\":-", "input.syntax", "predicted"},
};

TEST(refusals)
{
    FINISHED_BY(rig_close) struct rig rig;
    struct pst_error err;
    struct rig_shape shape = {.devices = 2, .chunks = 1, .batch = 4, .microbatch = 2};
    open_rig(&rig, 10);
    rig_plan(&rig, &shape);
    rig.plan->step_ns = 5;
    char *text = pst_plan_to_json(rig.plan, rig.graph);
    assert_int_equal(read_text(&rig, text, &err), PST_OK);
    for (size_t i = 0; i < sizeof damages / sizeof damages[0]; i++) {
        char *bad = with(text, damages[i].old, damages[i].new);
        if (read_text(&rig, bad, &err) != PST_ERR_CONFIG ||
            strcmp(err.kind, damages[i].kind) != 0 ||
            strstr(err.message, damages[i].place) == NULL || pst_error_exit_code(&err) != 2) {
            fail_msg("%s for %s: status %d, kind \"%s\", message \"%s\"", damages[i].new,
                     damages[i].old, err.status, err.kind, err.message);
        }
        free(bad);
    }
    char *trailing = with(text, "\n", "\n");
    trailing = realloc(trailing, strlen(text) + 8);
    strcat(trailing, "x");
    assert_int_equal(read_text(&rig, trailing, &err), PST_ERR_CONFIG);
    assert_string_equal(err.kind, "input.syntax");
    free(trailing);
    struct pst_plan *plan = NULL;
    size_t length = strlen(text);
    text[length - 1] = '\0'; /* in the place of the last newline */
    write_text(text, length);
    assert_int_equal(pst_plan_read(file, rig.graph, &plan, &err), PST_ERR_CONFIG);
    assert_string_equal(err.kind, "input.syntax");
    free(text);
}

/* --- parts of a replica ------------------------------------------------------------------------*/

/* Two stages of a replica of four parts each, for a config with as many. */
static char *text_of_parts(struct rig *rig, uint32_t zero)
{
    struct rig_shape shape = {.devices = 2, .chunks = 1, .batch = 4, .microbatch = 2};
    struct pst_plan *groups;
    rig_plan(rig, &shape);
    rig->graph->parts = 4;
    groups = rig->plan;
    expand_groups(groups, rig->graph, &rig->plan);
    pst_plan_destroy(groups);
    rig->plan->zero = zero;
    rig->plan->prefetch = zero == 2;
    return pst_plan_to_json(rig->plan, rig->graph);
}

TEST(parts)
{
    for (uint32_t zero = 0; zero < 4; zero++) {
        FINISHED_BY(rig_close) struct rig rig;
        struct pst_error err = {0};
        struct pst_plan *read = NULL;
        struct pst_hash before, after;
        open_rig(&rig, 13);
        char *text = text_of_parts(&rig, zero), *again;
        assert_non_null(strstr(text, "\"version\":2"));
        assert_non_null(strstr(text, "\"id\":1,\"tensor\":4,"));
        assert_true((strstr(text, "\"parallel\"") != NULL) == (zero > 0));
        assert_true((strstr(text, "\"parallel\":{\"zero\":2,\"prefetch\":1}") != NULL) ==
                    (zero == 2));
        assert_true((strstr(text, "\"parallel\":{\"zero\":3}") != NULL) == (zero == 3));
        assert_ok(pst_plan_parse("plan", text, strlen(text), rig.graph, &read, &err), &err);
        again = pst_plan_to_json(read, rig.graph);
        assert_string_equal(text, again);
        assert_int_equal(read->stages[1].tensor, 4);
        assert_int_equal(read->zero, zero);
        assert_int_equal(read->prefetch, zero == 2);
        before = pst_plan_digest(rig.plan);
        after = pst_plan_digest(read);
        assert_true(pst_hash_equal(&before, &after));
        read->stages[1].tensor = 2;
        after = pst_plan_digest(read);
        assert_false(pst_hash_equal(&before, &after));
        read->stages[1].tensor = 4;
        read->zero = zero == 2 ? 1 : 2;
        after = pst_plan_digest(read);
        assert_false(pst_hash_equal(&before, &after));
        read->zero = zero;
        read->prefetch++;
        after = pst_plan_digest(read);
        assert_false(pst_hash_equal(&before, &after));
        pst_plan_destroy(read);
        free(text);
        free(again);
    }
}

#define VERSIONS "\"versions\":{\"rule\":\"sync\",\"count\":1}"

static const struct damage damages_of_parts[] = {
    {"\"tensor\":4", "\"tensor\":3", "input.syntax",
     "stages[0].tensor: the plan was made with parallel.tensor = 3, here it is 4; plan again"},
    {"\"tensor\":4", "\"tensor\":2", "input.syntax",
     "stages[0].tensor: the plan was made with parallel.tensor = 2, here it is 4; plan again"},
    {",\"tensor\":4", "", "input.syntax",
     "stages[0].tensor: the plan was made with parallel.tensor = 1, here it is 4; plan again"},
    {"\"id\":1,\"tensor\":4", "\"id\":1,\"tensor\":2", "input.syntax",
     "stages[1].tensor: the plan was made with parallel.tensor = 2, here it is 4; plan again"},
    {"\"tensor\":4", "\"tensor\":1", "input.syntax", "stages[0].tensor: 1, expected 2 or more"},
    {"\"tensor\":4", "\"tensor\":0", "input.syntax", "stages[0].tensor: 0, expected 2 or more"},
    {"[4,5,6,7]", "[4,6,5,7]", "input.syntax", "stages[1].devices: expected 4 devices in a row"},
    {"[4,5,6,7]", "[0,5,6,7]", "input.syntax", "stages[1].devices: expected 4 devices in a row"},
    {"\"tensor\":4", "\"tensor\":\"4\"", "input.syntax", "stages[0].tensor"},
    {"\"version\":2", "\"version\":1", "input.unsupported", "version 1, expected version 2"},
    {VERSIONS, VERSIONS ",\"parallel\":{\"zero\":0}", "input.unsupported",
     "zero = 0, expected 1, 2 or 3; leave the key out for 0"},
    {VERSIONS, VERSIONS ",\"parallel\":{\"zero\":4}", "input.unsupported",
     "zero = 4, expected 1, 2 or 3"},
    {VERSIONS, VERSIONS ",\"parallel\":{\"zero\":\"2\"}", "input.syntax", "parallel.zero"},
    {VERSIONS, VERSIONS ",\"parallel\":{\"zero\":-1}", "input.syntax", "parallel.zero"},
    {VERSIONS, VERSIONS ",\"parallel\":{\"zero\":3,\"prefetch\":0}", "input.unsupported",
     "prefetch = 0 with zero = 3, expected 1 to 8, with zero = 2 or 3; leave the key out for 0"},
    {VERSIONS, VERSIONS ",\"parallel\":{\"zero\":3,\"prefetch\":9}", "input.unsupported",
     "prefetch = 9 with zero = 3, expected 1 to 8"},
    {VERSIONS, VERSIONS ",\"parallel\":{\"zero\":1,\"prefetch\":1}", "input.unsupported",
     "prefetch = 1 with zero = 1, expected 1 to 8, with zero = 2 or 3"},
    {VERSIONS, VERSIONS ",\"parallel\":{}", "input.unsupported",
     "expected zero = 1, 2 or 3, sequence = true, way, or several of them"},
};

TEST(refusals_of_parts)
{
    FINISHED_BY(rig_close) struct rig rig;
    struct pst_error err;
    open_rig(&rig, 14);
    char *text = text_of_parts(&rig, 0);
    for (size_t i = 0; i < sizeof damages_of_parts / sizeof *damages_of_parts; i++) {
        const struct damage *damage = &damages_of_parts[i];
        char *bad = with(text, damage->old, damage->new);
        if (read_text(&rig, bad, &err) != PST_ERR_CONFIG || strcmp(err.kind, damage->kind) != 0 ||
            strstr(err.message, damage->place) == NULL || pst_error_exit_code(&err) != 2) {
            fail_msg("%s for %s: status %d, kind \"%s\", message \"%s\"", damage->new, damage->old,
                     err.status, err.kind, err.message);
        }
        free(bad);
    }
    rig.graph->parts = 1;
    assert_int_equal(read_text(&rig, text, &err), PST_ERR_CONFIG);
    assert_non_null(
        strstr(err.message, "the plan was made with parallel.tensor = 4, here it is 1"));
    free(text);
}

/* Every digit and bracket of a file changed in turn: refused or read, never worse. */
TEST(damage_everywhere)
{
    struct rig rig;
    struct pst_error err;
    static struct pst_check_report report;
    struct rig_shape shape = {.devices = 2, .chunks = 1, .batch = 2, .microbatch = 1};
    open_rig(&rig, 11);
    rig_plan(&rig, &shape);
    char *text = pst_plan_to_json(rig.plan, rig.graph);
    struct pst_plan *made = rig.plan;
    uint32_t n_read = 0;
    for (size_t i = 0; text[i] != '\0'; i++) {
        char old = text[i];
        if (strchr("0123456789[]{},:\"", old) == NULL) {
            continue;
        }
        struct pst_plan *plan = NULL;
        text[i] = old >= '0' && old <= '9' ? (char)('0' + (old - '0' + 1) % 10) : ' ';
        write_text(text, strlen(text));
        if (pst_plan_read(file, rig.graph, &plan, &err) == PST_OK) {
            rig.plan = plan;
            rig_check(&rig, false, &report, &err); /* must not read out of bounds */
            n_read++;
        }
        pst_plan_destroy(plan);
        text[i] = old;
    }
    print_message("%u damaged files could be read\n", n_read);
    assert_true(n_read > 0);
    free(text);
    rig.plan = made;
    rig_close(&rig);
}

TEST(limits)
{
    FINISHED_BY(rig_close) struct rig rig;
    struct pst_error err;
    open_rig(&rig, 12);
    char deep[80] = "";
    memset(deep, '[', 40);
    assert_int_equal(read_text(&rig, deep, &err), PST_ERR_CONFIG);
    assert_string_equal(err.kind, "input.limit");
    memset(deep, '[', 32); /* the limit itself: only the syntax is wrong */
    deep[32] = '\0';
    assert_int_equal(read_text(&rig, deep, &err), PST_ERR_CONFIG);
    assert_string_equal(err.kind, "input.syntax");

    char *text = malloc(70000);
    memset(text, 'a', 70000);
    memcpy(text, "{\"x\":\"", 6);
    memcpy(text + 6 + 65536, "\"}", 3); /* just at the limit */
    assert_int_equal(read_text(&rig, text, &err), PST_ERR_CONFIG);
    assert_string_equal(err.kind, "input.syntax");
    memset(text + 6 + 65536, 'a', 3);
    memcpy(text + 6 + 65537, "\"}", 3);
    assert_int_equal(read_text(&rig, text, &err), PST_ERR_CONFIG);
    assert_string_equal(err.kind, "input.limit");
    free(text);
    assert_int_equal(read_text(&rig, "]", &err), PST_ERR_CONFIG);
    assert_int_equal(read_text(&rig, "{\"a\":\"\\", &err), PST_ERR_CONFIG);
    assert_int_equal(read_text(&rig, "[]", &err), PST_ERR_CONFIG);
}

static int open_folder(void **state)
{
    snprintf(folder, sizeof folder, "/tmp/penstock-plan-XXXXXX");
    if (mkdtemp(folder) == NULL) {
        return -1;
    }
    snprintf(file, sizeof file, "%s/plan.json", folder);
    return 0;
}

static int close_folder(void **state)
{
    unlink(file);
    return rmdir(folder);
}

TEST_GROUP(open_folder, close_folder)

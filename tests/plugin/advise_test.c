/* SPDX-License-Identifier: Apache-2.0
 *
 * Advice to who can tell how long a step takes: of the memory optimizers that would do, the one of
 * the shortest step.
 */
#include "job_answer.h"

static const char *scheduler = "1f1b";

/* A step with that memory optimizer, 0 where it does not fit; then the error's hint into `hint`,
 *and ret_need is what it says would do. */
static uint64_t step_with(const char *memopt, uint64_t memory, bool brief, uint64_t *ret_need,
                          char hint[1024])
{
    struct job_answer answer;
    char toml[1024];

    snprintf(toml, sizeof toml,
             "[model]\nuse = \"gpt\"\nlayers = 4\ndim = 64\nheads = 4\nvocab = 256\n"
             "context = 64\n[data]\nkind = \"synthetic\"\n[train]\nbatch = 32\nmicrobatch = 4\n"
             "[cluster]\ndevices = 2\nmemory = %llu\n[partitioner]\nuse = \"uniform\"\n"
             "[scheduler]\nuse = \"%s\"\n[[memopt]]\nuse = \"%s\"\n",
             (unsigned long long)memory, scheduler, memopt);
    answer = job_answer(toml, brief ? PST_ADVICE_NONE : PST_ADVICE_ALL);
    *ret_need = answer.fits ? answer.need : answer.enough;
    if (!answer.fits) {
        snprintf(hint, 1024, "%s", answer.err.hint);
    }
    return answer.step_ns;
}

TEST(test_fastest)
{
    static const char *const others[] = {"adapipe", "two-ended", "full"};
    char hint[1024] = "", id[64] = "", unused[1024];
    uint64_t need = 0, named, memory;
    uint32_t slower = 0;
    const char *at;

    assert_true(step_with("none", 0, true, &need, unused) > 0);
    memory = need / 10 * 8;
    assert_int_equal(step_with("none", memory, false, &need, hint), 0);
    at = strstr(hint, "memopt.use = \"");
    assert_non_null(at);
    assert_int_equal(sscanf(at, "memopt.use = \"%63[^\"]\" would fit", id), 1);
    named = step_with(id, memory, true, &need, unused);
    assert_true(named > 0);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        uint64_t step_ns = step_with(others[i], memory, true, &need, unused);

        print_message("%s: %llu ns, %s: %llu ns\n", id, (unsigned long long)named, others[i],
                      (unsigned long long)step_ns);
        assert_true(step_ns == 0 || named <= step_ns);
        slower += step_ns > named;
    }
    assert_true(slower > 0);
}

/* Where none would do with what there is, the one that needs least: no more than any of them says
   when it is asked itself, but for how finely memory is halved. */
TEST(test_least)
{
    static const char *const others[] = {"adapipe", "two-ended", "full", "rotor"};
    char hint[1024] = "", own[1024];
    unsigned long long named = 0, least = ~0ull;
    uint64_t need = 0, memory;
    const char *at;

    assert_true(step_with("rotor", 0, true, &need, own) > 0);
    memory = need / 10 * 3;
    assert_int_equal(step_with("none", memory, false, &need, hint), 0);
    at = strstr(hint, "would do; ");
    assert_non_null(at);
    assert_int_equal(sscanf(at, "would do; %llu with memopt", &named), 1);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        assert_int_equal(step_with(others[i], memory, false, &need, own), 0);
        print_message("%s: %llu; %s\n", others[i], (unsigned long long)need, hint);
        assert_true(need > 0);
        least = need < least ? need : least;
    }
    assert_true(named <= least + least / 16);
}

/* A scheduler that searches is not asked about other memory optimizers; what is said to be enough
   memory is. */
TEST(test_searching_scheduler)
{
    char hint[1024] = "";
    uint64_t bytes, need;

    scheduler = "v-adaptive";
    assert_int_equal(step_with("none", 1u << 20, false, &bytes, hint), 0);
    scheduler = "1f1b";
    assert_null(strstr(hint, "memopt.use"));
    scheduler = "v-adaptive";
    assert_true(step_with("none", bytes, false, &need, hint) > 0);
    scheduler = "1f1b";
    assert_true(need <= bytes);
}

/* Which does not search then, unless the config says how much. */
TEST(test_haste)
{
    static const struct {
        const char *scheduler, *key;
        int64_t value; /* -1: there is no such key */
    } rows[] = {
        {"use = \"v-adaptive\"", "exact", 0},
        {"use = \"v-adaptive\"\nexact = 7", "exact", 7},
        {"use = \"optimal\"", "max_nodes", 100000},
        {"use = \"1f1b\"", "exact", -1},
    };

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        FINISHED_BY(pst_arena_finish) struct pst_arena arena = {0};
        FINISHED_BY(job_rig_finish) struct job_rig rig;
        char toml[256];
        const struct pst_config_node *before, *node;

        snprintf(toml, sizeof toml,
                 "[model]\nuse = \"mlp\"\n[data]\nkind = \"synthetic\"\n[scheduler]\n%s\n",
                 rows[i].scheduler);
        assert_int_equal(job_rig_init(&rig, toml), PST_OK);
        before = rig.job.scheduler;
        pst_hasten(&arena, &rig.job);
        node = pst_config_get(rig.job.scheduler, rows[i].key);
        if (rows[i].value < 0) {
            assert_null(node);
            assert_ptr_equal(rig.job.scheduler, before);
        } else {
            assert_non_null(node);
            assert_int_equal(node->kind, PST_CONFIG_INT);
            assert_int_equal(node->value.integer, rows[i].value);
        }
    }
}

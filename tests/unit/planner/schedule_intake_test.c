/* SPDX-License-Identifier: Apache-2.0
 *
 * What the host takes of a schedule that is told pass by pass, and what it refuses.
 */
#include "planner/schedule_intake.h"

#include "test.h"

enum { N_STAGES = 2 };

struct world {
    struct pst_schedule_in in;
    struct pst_schedule_stage stages[N_STAGES];
    struct pst_emission emission;
};

/* Stages on a device each. */
static void begin(struct world *w, uint32_t n_stages, uint32_t n_microbatches)
{
    memset(w, 0, sizeof *w);
    for (uint32_t s = 0; s < n_stages; s++) {
        w->stages[s] = (struct pst_schedule_stage){
            .device = s, .microbatch_size = 1, .n_microbatches = n_microbatches, .k = 1};
    }
    w->in = (struct pst_schedule_in){.size = sizeof w->in,
                                     .n_devices = n_stages,
                                     .n_stages = n_stages,
                                     .stage_size = sizeof w->stages[0],
                                     .stages = w->stages};
    pst_emission_init(&w->emission, &w->in);
}

static uint32_t index_of(const char *const *names, uint32_t n, const char *word, size_t length)
{
    for (uint32_t i = 1; i < n; i++) {
        if (strlen(names[i]) == length && strncmp(names[i], word, length) == 0) {
            return i;
        }
    }
    return 0;
}

/* "fill F0 body F1 BW0": one word of an order of one stage. */
static void tell(struct pst_schedule_out *out, const char *word)
{
    static const char *const passes[] = {"", "F", "B", "W", "BW"};
    static const char *const parts[] = {"", "fill", "body", "drain", "more"};
    size_t length = strcspn(word, "0123456789");
    uint32_t pass = index_of(passes, 5, word, length);

    if (pass != 0) {
        out->emit(out, 0, pass, 0, (uint32_t)atoi(word + length));
    } else {
        out->part(out, index_of(parts, 5, word, length));
    }
}

/* One stage, so many micro-batches; fault: NULL where nothing is wrong. */
static void expect_of(uint32_t n_microbatches, uint32_t slices, const char *order,
                      const char *fault)
{
    struct world w;
    char words[256], *rest = words;

    begin(&w, 1, n_microbatches);
    w.in.slices = slices;
    snprintf(words, sizeof words, "%s", order);
    for (char *word; (word = strsep(&rest, " ")) != NULL && w.emission.fault[0] == '\0';) {
        tell(&w.emission.out, word);
    }
    assert_int_equal(w.emission.fault[0] == '\0' && pst_emission_complete(&w.emission),
                     fault == NULL);
    if (fault != NULL && strstr(w.emission.fault, fault) == NULL) {
        fail_msg("%s: \"%s\" is not in \"%s\"", order, fault, w.emission.fault);
    }
    pst_emission_finish(&w.emission);
}

static void expect(const char *order, const char *fault)
{
    expect_of(2, 1, order, fault);
}

/* Two micro-batches of two slices each: forward from the first to the last, and back. */
TEST(slices)
{
    expect_of(4, 2, "F0 F1 F2 BW1 F3 BW0 BW3 BW2", NULL);
    expect_of(4, 2, "F0 F1 B1 B0 W0 W1 F2 F3 BW3 BW2", NULL);
    expect_of(4, 2, "F1",
              "slice 1 of 2 of its sequences, comes before that of micro-batch 0, slice 0");
    expect_of(4, 2, "F0 F1 BW0", "comes before that of micro-batch 1, slice 1");
    expect_of(4, 2, "F0 B0", "comes before that of micro-batch 1, slice 1");
    expect_of(4, 2, "F2 F3 BW3 BW2 F0 F1 B1 BW0 W1", NULL);
}

TEST(parts)
{
    expect("fill F0 body F1 BW0 F2 BW1 drain F1 BW0 BW1", NULL);
    expect("fill F0 body F1 B0 W0 F2 BW1 drain F1 BW0 B1 W1", NULL);
    expect("more", "there is no part 4");
    expect("F0 fill", "comes after passes that belong to no part");
    expect("fill F4", "so below 4");
    expect("fill F0 body F1 BW0 F2 BW1 drain BW0", "never gets its F in batch 0 of 1");
    expect("fill F0 drain F1 BW0", "never gets its backward in batch 0 of 1");
    expect("fill F0 F1 drain F1", "F of micro-batch 1 on stage 0 comes twice: in drain");
    expect("fill F0 drain BW1", "BW of micro-batch 1 on stage 0 comes before its F: in drain");
    expect("fill F0 drain F1 F2", "of a batch that is never closed");
    /* whole in one batch, but body runs a micro-batch of the first again */
    expect("fill F0 body F0 drain F1 BW0 BW1", "comes twice: in body");
    expect("fill F0 drain F1 B0 BW1", "never gets its W");
    expect("F0 BW0 F1 B1", "micro-batch 1 of stage 0 never gets its W");
}

TEST(wrong_passes)
{
    static const struct {
        uint32_t device, pass, stage, microbatch;
        const char *words;
    } wrong[] = {
        {0, PST_PASS_BW, 0, 0, "BW of micro-batch 0 on stage 0 comes before its F"},
        {0, PST_PASS_F, 2, 0, "stage 2, but there are 2 stages"},
        {1, PST_PASS_F, 0, 0, "emitted on device 1, but the stage is on device 0"},
        {0, PST_PASS_F, 0, 3, "micro-batch 3 on stage 0; micro-batches are 0 to 2"},
        {0, PST_PASS_R, 0, 0, "R of stage 0 is placed"},
        {0, 9, 0, 0, "no pass 9"},
        {7, PST_PASS_F, 0, 0, "emitted on device 7"},
    };

    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct world w;
        struct pst_schedule_out *out = &w.emission.out;

        begin(&w, 2, 3);
        assert_int_equal(
            out->emit(out, wrong[i].device, wrong[i].pass, wrong[i].stage, wrong[i].microbatch),
            PST_ERR_BUG);
        if (strstr(w.emission.fault, wrong[i].words) == NULL) {
            fail_msg("\"%s\" lacks \"%s\"", w.emission.fault, wrong[i].words);
        }
        /* From then on nothing is taken. */
        assert_int_equal(out->emit(out, 0, PST_PASS_F, 0, 0), PST_ERR_BUG);
        pst_emission_finish(&w.emission);
    }
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * Data that does one thing wrong, or refuses, as its parameter says; without one it counts.
 */
#include "gallery.h"

#include <math.h>
#include <signal.h>

#ifndef GALLERY_ID
#define GALLERY_ID "rude"
#endif
#ifndef GALLERY_VERSION
#define GALLERY_VERSION "1.0"
#endif

#define FAULTS                                                                                     \
    "none|refuses|mute|empty|huge|grows|file|class|hole|by-call|by-order|shares|odd-status|short|" \
    "first|crashes|allocates|scratches|asks|"                                                      \
    "remarks|ends|forks"

enum {
    NONE,
    REFUSES,
    MUTE,
    EMPTY,
    HUGE_COUNT,
    GROWS,
    NO_FILE,
    CLASS,
    NOT_A_NUMBER,
    BY_CALL,
    BY_ORDER,
    SHARES,
    ODD_STATUS,
    SHORT, /* leaves the last number of the odd samples */
    FIRST, /* fills the first input of X alone */
    CRASHES,
    ALLOCATES,
    SCRATCHES,
    ASKS,
    REMARKS,
    ENDS,  /* the program, without a failure, at sample 8 */
    FORKS, /* a process that ends so */
};

struct config {
    uint32_t fault;
    const char *file, *train;
    int64_t valid_fraction;
    uint32_t dtype;
};

static const struct pst_param params[] = {
    PST_PARAM(struct config, fault, PST_PARAM_ENUM, "none", FAULTS, "What it does wrong."),
    PST_PARAM(struct config, file, PST_PARAM_PATH, "", NULL, "A file that it names."),
    PST_PARAM(struct config, train, PST_PARAM_STRING, "", NULL,
              "A key that other kinds have, as a path; its value is told by a refusal."),
    PST_PARAM(struct config, valid_fraction, PST_PARAM_INT, "0", "0..100",
              "A key that other kinds have in another range."),
    PST_PARAM(struct config, dtype, PST_PARAM_ENUM, "f4", "f4|f8", "One with other words."),
};

struct counter {
    const struct pst_host *host;
    const struct config *config;
    const struct pst_data_shape *shape;
    const struct pst_scratch *scratch; /* NULL: the host has none */
    const struct pst_remark *remark;
    uint32_t n_calls, last; /* written by reads: what a plugin must not do */
    volatile uint64_t shared;
};

static pst_status create(const struct pst_host *host, const void *config, void **ret_self)
{
    struct counter *self = host->alloc(host, sizeof *self, sizeof(void *));

    if (self == NULL) {
        return PST_ERR_NOMEM;
    }
    self->host = host;
    self->config = config;
    self->scratch = host->get_extension(host, PST_SCRATCH);
    self->remark = host->get_extension(host, PST_REMARK);
    *ret_self = self;
    return PST_OK;
}

PST_DESTROY_NOTHING

static pst_status open_data(void *self_, const struct pst_data_shape *shape)
{
    struct counter *self = self_;

    self->shape = shape;
    if (self->config->fault == CRASHES) {
        raise(SIGSEGV);
    }
    if (self->config->fault == FORKS && gallery_call("fork") == 0) {
        gallery_call("exit"); /* here the program has one thread, so no lock is held for ever */
    }
    if (self->config->fault == REFUSES) {
        return pst_failf(self->host, PST_ERR_CONFIG, "not for %s%s%s",
                         pst_data_input_at(shape, 0)->name,
                         self->config->train[0] != '\0' ? "; train is " : "", self->config->train);
    }
    return self->config->fault == MUTE ? PST_ERR_CONFIG : PST_OK;
}

static uint64_t samples(void *self_, uint32_t split)
{
    struct counter *self = self_;
    const uint64_t n = split == PST_SPLIT_TRAIN ? 40 : 8;

    switch (self->config->fault) {
    case EMPTY:
        return 0;
    case HUGE_COUNT:
        return UINT64_MAX - 1;
    case GROWS:
        return n + self->n_calls / 4;
    default:
        return n;
    }
}

/* The error is added to the first number of a sample. */
static double strange(struct counter *self, uint64_t number)
{
    double value = 0;

    if (self->config->fault == BY_CALL) {
        value = self->n_calls;
    } else if (self->config->fault == BY_ORDER && number < self->last) {
        value = 1;
    } else if (self->config->fault == SHARES) {
        self->shared = number;
        for (volatile int i = 0; i < 20000; i++) {
        }
        value = (double)self->shared - (double)number;
    } else if (self->config->fault == NOT_A_NUMBER && number == 5) {
        value = (double)NAN;
    }
    return value;
}

/* Elements at the end of input k that it does not write. */
static uint64_t count_left(const struct counter *self, uint64_t number, uint32_t k)
{
    const struct pst_data_input *input = pst_data_input_at(self->shape, k);

    if (input->field != PST_FIELD_X) {
        return 0;
    }
    if (self->config->fault == FIRST) {
        return k > 0 ? input->elems : 0;
    }
    return self->config->fault == SHORT ? number % 2 : 0;
}

static void put_sample(struct counter *self, uint64_t number, uint32_t i, void *const *inputs)
{
    for (uint32_t k = 0; k < self->shape->n_inputs; k++) {
        const struct pst_data_input *input = pst_data_input_at(self->shape, k);
        void *to = (char *)inputs[k] + i * input->bytes;
        const uint64_t end = input->elems - count_left(self, number, k);

        for (uint64_t e = 0; e < end; e++) {
            const double wrong = e == 0 && k == 0 ? strange(self, number) : 0;
            const bool beyond = self->config->fault == CLASS && number == 5 && k > 0;

            if (input->dtype == PST_I32) {
                ((int32_t *)to)[e] = (int32_t)((number + e) % (input->range - 1) +
                                               (beyond ? input->range : 0) + (wrong != 0));
            } else {
                pst_data_put(to, input->dtype, e, (double)(number % 7 + e % 3) / 4 + wrong);
            }
        }
    }
}

/* Calls functions of the host that a read must not call. */
static void use_host(const struct counter *self)
{
    if (self->config->fault == ALLOCATES) {
        self->host->alloc(self->host, 8, 8);
    } else if (self->config->fault == SCRATCHES && self->scratch != NULL) {
        self->scratch->alloc(self->host, 8, 8);
    } else if (self->config->fault == ASKS) {
        self->host->get_extension(self->host, PST_REMARK);
    } else if (self->config->fault == REMARKS && self->remark != NULL) {
        self->remark->flag(self->host, "read", true);
    }
}

static pst_status read_samples(void *self_, uint32_t split, uint64_t first, uint32_t n,
                               void *const *inputs)
{
    struct counter *self = self_;
    const struct config *config = self->config;

    (void)split;
    use_host(self);
    if (config->fault == ENDS && first >= 8) {
        gallery_call("exit");
    } else if (config->fault == NO_FILE) {
        return pst_failf(self->host, PST_ERR_IO, "%s: sample %llu is not there", config->file,
                         (unsigned long long)first);
    }
    for (uint32_t i = 0; i < n; i++) {
        put_sample(self, first + i, i, inputs);
    }
    if (config->fault >= GROWS && config->fault <= ODD_STATUS && config->fault != SHARES) {
        self->n_calls++;
        self->last = (uint32_t)first;
    }
    return config->fault == ODD_STATUS ? 42 : PST_OK;
}

PST_INTERFACE(PST_DATA, struct pst_data_interface, .open = open_data, .samples = samples,
              .read = read_samples)

GALLERY_PLUGIN("data", GALLERY_ID, GALLERY_VERSION, "Counts, or does worse.",
               PST_PLUGIN_PARAMS(params, struct config), NULL)

/* SPDX-License-Identifier: Apache-2.0
 *
 * How fast training data is read, on one thread:
 *
 *   bench-data tokens [FOLDER [MILLIONS]]     samples of a file of uint16 tokens that is written
 * there bench-data encode TOKENIZER TEXT          a text to tokens
 *
 * Medians of five rounds, by processor time. The file, of 256 million tokens in /tmp, is in the
 * page cache; beside the rate stands its part of what reading the file from begin to end takes.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/philox.h"
#include "base/util.h"
#include "data/data.h"
#include "data/tokenizer.h"
#include "session/session.h"

enum { ROUNDS = 5, BATCH = 64, PIECE = 1 << 20 };

static char path[256];

/* Of this thread, so that others on the machine do not count. */
static void check(pst_status status, const struct pst_error *err)
{
    if (status != PST_OK) {
        fprintf(stderr, "%s %s\n", err->file, err->message);
        unlink(path);
        exit(pst_error_exit_code(err));
    }
}

static double median(double *values)
{
    for (uint32_t i = 1; i < ROUNDS; i++) {
        for (uint32_t k = i; k > 0 && values[k] < values[k - 1]; k--) {
            double swap = values[k];

            values[k] = values[k - 1];
            values[k - 1] = swap;
        }
    }
    return values[ROUNDS / 2];
}

static void write_tokens(uint64_t n)
{
    static uint16_t tokens[PIECE];
    FILE *file = fopen(path, "wb");

    for (uint64_t done = 0; file != NULL && done < n; done += PIECE) {
        for (uint32_t i = 0; i < PIECE; i += 4) {
            struct pst_philox bits = pst_philox(1, 2, done + i);

            for (uint32_t k = 0; k < 4; k++) {
                tokens[i + k] = (uint16_t)(bits.v[k] % 50257);
            }
        }
        if (fwrite(tokens, sizeof *tokens, PIECE, file) != PIECE) {
            break;
        }
    }
    if (file == NULL || fclose(file) != 0) {
        perror(path);
        exit(1);
    }
}

/* Tokens per second of read() from begin to end. */
static double read_file(uint64_t n)
{
    static char bytes[PIECE];
    double rates[ROUNDS];

    for (uint32_t round = 0; round < ROUNDS; round++) {
        int fd = open(path, O_RDONLY);
        uint64_t begin = pst_clock_ns(CLOCK_THREAD_CPUTIME_ID);

        while (read(fd, bytes, sizeof bytes) > 0) {
        }
        rates[round] = (double)n * 1e9 / (double)(pst_clock_ns(CLOCK_THREAD_CPUTIME_ID) - begin);
        close(fd);
    }
    return median(rates);
}

static double read_samples(uint32_t context)
{
    struct pst_config *config = NULL;
    struct pst_session *session = NULL;
    struct pst_sample_shape shape;
    struct pst_data *data = NULL;
    struct pst_error err = {0};
    struct pst_job job;
    void *inputs[2];
    double rates[ROUNDS];
    char text[512];
    uint64_t batch = 0;

    snprintf(text, sizeof text,
             "[model]\nuse = 'gpt'\nlayers = 1\ndim = 8\nheads = 1\ncontext = %u\nvocab = 50257\n"
             "[data]\nkind = 'tokens'\ntrain = '%s'\n",
             context, path);
    check(pst_config_parse(text, strlen(text), "bench", &config, &err), &err);
    pst_job_set_defaults("cpu", "threads");
    pst_job_set_training(&pst_training_rows);
    check(pst_job_read(config, &job, &err), &err);
    check(pst_session_create(&job, NULL, &session, &err), &err);
    check(pst_sample_shape_of(session->graph, &shape, &err), &err);
    check(pst_data_create(&job, session->graph, &data, &err), &err);
    inputs[0] = pst_alloc(BATCH, shape.inputs[0].bytes);
    inputs[1] = pst_alloc(BATCH, shape.inputs[1].bytes);
    for (uint32_t round = 0; round < ROUNDS; round++) {
        uint64_t begin = pst_clock_ns(CLOCK_THREAD_CPUTIME_ID), tokens = 0;

        while (pst_clock_ns(CLOCK_THREAD_CPUTIME_ID) - begin < 300000000) {
            check(pst_data_read(data, PST_SPLIT_TRAIN, batch++ * BATCH, BATCH, inputs, &err), &err);
            tokens += BATCH * context;
        }
        rates[round] =
            (double)tokens * 1e9 / (double)(pst_clock_ns(CLOCK_THREAD_CPUTIME_ID) - begin);
    }
    free(inputs[0]);
    free(inputs[1]);
    pst_data_destroy(data);
    pst_session_destroy(session);
    pst_job_finish(&job);
    pst_config_destroy(config);
    return median(rates);
}

static void bench_tokens(const char *folder, uint64_t millions)
{
    uint64_t n = (millions * 1000000 + PIECE - 1) / PIECE * PIECE;
    double whole;

    snprintf(path, sizeof path, "%s/penstock-bench-%d.bin", folder, (int)getpid());
    write_tokens(n);
    whole = read_file(n);
    printf("%-24s %12s %8s\n", "", "M tokens/s", "of read");
    printf("%-24s %12.0f %8.2f\n", "read, begin to end", whole / 1e6, 1.0);
    for (uint32_t context = 64; context <= 4096; context *= 4) {
        double rate = read_samples(context);

        printf("samples of %4u tokens    %12.0f %8.2f\n", context, rate / 1e6, rate / whole);
    }
    unlink(path);
}

static void bench_encode(const char *file, const char *text_path)
{
    struct pst_tokenizer *tokenizer = NULL;
    struct pst_error err = {0};
    double rates[ROUNDS];
    uint64_t n = 0, begin = pst_clock_ns(CLOCK_THREAD_CPUTIME_ID);
    char *text = NULL;
    size_t length = 0;

    check(pst_tokenizer_read(file, &tokenizer, &err), &err);
    printf("read in %.0f ms: %u tokens\n",
           (double)(pst_clock_ns(CLOCK_THREAD_CPUTIME_ID) - begin) * 1e-6,
           pst_tokenizer_vocab(tokenizer));
    check(pst_file_read(text_path, (size_t)1 << 30, "input.path", &text, &length, &err), &err);
    for (uint32_t round = 0; round < ROUNDS; round++) {
        int32_t *tokens = NULL;

        begin = pst_clock_ns(CLOCK_THREAD_CPUTIME_ID);
        check(pst_tokenizer_encode(tokenizer, text, length, false, &tokens, &n, &err), &err);
        rates[round] =
            (double)length * 1e3 / (double)(pst_clock_ns(CLOCK_THREAD_CPUTIME_ID) - begin);
        free(tokens);
    }
    printf("%zu bytes: %llu tokens, %.1f MB/s\n", length, (unsigned long long)n, median(rates));
    free(text);
    pst_tokenizer_destroy(tokenizer);
}

int main(int argc, char **argv)
{
    if (argc == 4 && strcmp(argv[1], "encode") == 0) {
        bench_encode(argv[2], argv[3]);
    } else if (argc >= 2 && argc <= 4 && strcmp(argv[1], "tokens") == 0) {
        bench_tokens(argc > 2 ? argv[2] : "/tmp", argc > 3 ? strtoull(argv[3], NULL, 10) : 256);
    } else {
        fprintf(stderr, "usage: bench-data tokens [FOLDER [MILLIONS]] | encode TOKENIZER TEXT\n");
        return 2;
    }
    return 0;
}

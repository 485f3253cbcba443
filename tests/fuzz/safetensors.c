/* SPDX-License-Identifier: Apache-2.0
 *
 * A safetensors file: what is opened is read to its last byte.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "weights/safetensors.h"
#include "fuzz.h"

static char folder_path[] = "/tmp/penstock-fuzz-XXXXXX";
static int folder = -1;

static void leave(void)
{
    unlinkat(folder, "x", 0);
    rmdir(folder_path);
}

void fuzz_begin(void)
{
    folder = mkdtemp(folder_path) != NULL ? open(folder_path, O_RDONLY | O_DIRECTORY) : -1;
    if (folder < 0) {
        fuzz_fail("no folder");
    }
    atexit(leave);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    int fd = openat(folder, "x", O_WRONLY | O_CREAT | O_TRUNC, 0600);
    struct pst_st_file *file = NULL;
    struct pst_error err = {0};
    uint64_t total = 0;

    if (fd < 0 || write(fd, data, size) != (ssize_t)size || close(fd) != 0) {
        fuzz_fail("a file cannot be written");
    }
    if (!fuzz_judge(pst_st_open(folder, "x", "x", &file, &err), &err)) {
        return 0;
    }
    for (uint32_t i = 0; i < file->n; i++) {
        const struct pst_st_tensor *tensor = &file->tensors[i];
        uint64_t n = tensor->elems < 64 ? tensor->elems : 64;
        float values[64];

        total += tensor->bytes;
        if (pst_st_find(file, tensor->name) != tensor || tensor->bytes > size) {
            fuzz_fail("tensor %u", i);
        }
        fuzz_judge(pst_st_read_f32(file, tensor, tensor->elems - n, n, values, &err), &err);
    }
    if (total > size) {
        fuzz_fail("more data than the file has");
    }
    pst_st_close(file);
    return 0;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * The digest by which the program knows the plugins that it came with, and the list that has it:
 * lines of xxh128sum, "<digest>  <file name>". The build's list_shipped writes it.
 */
#ifndef PST_HOST_FILE_DIGEST_H
#define PST_HOST_FILE_DIGEST_H

#include <stdbool.h>

#define PST_SHIPPED_LIST "shipped.xxh128" /* beside the plugins */
#define PST_DIGEST_TEXT  33               /* bytes, with the NUL */

/* XXH3-128 of all bytes of a file, in hexadecimal. False with errno where it cannot be read. */
bool pst_digest_file(int fd, char ret_text[PST_DIGEST_TEXT]);

#endif

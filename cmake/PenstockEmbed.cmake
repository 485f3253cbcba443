# cmake -DINPUT=FILE -DOUTPUT=FILE.c -DNAME=SYMBOL -P PenstockEmbed.cmake: a file as a C string.
file(READ ${INPUT} bytes HEX)
string(REGEX REPLACE "(................................)" "\\1\n" bytes "${bytes}")
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
file(WRITE ${OUTPUT} "/* ${NAME}, from ${INPUT} */\nextern const char ${NAME}[];\nconst char ${NAME}[] = {\n${bytes}0x00};\n")

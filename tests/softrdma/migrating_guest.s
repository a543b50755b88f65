# SPDX-License-Identifier: BSD-3-Clause
# A boot sector that is a whole guest: it writes 32 MiB of memory again and again, and finds in each word what it wrote
# there in the pass before. To the debug console it says '.' after each pass, and 'F' when a word is not as it was.
.set first, 0x200000
.set end, 0x2200000
.set step, 256
.set multiplier, 0x9e3779b1

.code16
.globl _start
_start:
    cli
    xorw %ax, %ax
    movw %ax, %ds
    lgdt table_register
    movl %cr0, %eax
    orb $1, %al
    movl %eax, %cr0
    ljmp $8, $protected

.code32
protected:
    movw $16, %ax
    movw %ax, %ds
    movw %ax, %es
    movw %ax, %ss
    xorl %ebx, %ebx # the pass
pass:
    incl %ebx
    movl $first, %edi
word:
    leal -1(%ebx), %eax
    imull $multiplier, %eax, %eax
    xorl %edi, %eax
    cmpl $1, %ebx
    je store # nothing was written before the first pass
    cmpl %eax, (%edi)
    jne wrong
store:
    imull $multiplier, %ebx, %eax
    xorl %edi, %eax
    movl %eax, (%edi)
    addl $step, %edi
    cmpl $end, %edi
    jb word
    movb $'.', %al
    outb %al, $0xe9
    jmp pass
wrong:
    movb $'F', %al
    outb %al, $0xe9
stop:
    hlt
    jmp stop

.align 8
table:
    .quad 0
    .quad 0x00cf9a000000ffff # code, 4 GiB
    .quad 0x00cf92000000ffff # data, 4 GiB
table_register:
    .word . - table - 1
    .long table

.org 510
.word 0xaa55

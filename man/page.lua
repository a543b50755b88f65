-- SPDX-License-Identifier: BSD-3-Clause
-- What pandoc 2.17 writes for code and after headings is not clean for mandoc; this is.

local function escaped(text)
  text = text:gsub('\\', '\\e'):gsub('-', '\\-'):gsub("'", '\\(aq'):gsub('`', '\\(ga'):gsub('%^', '\\(ha')
  return (('\n' .. text):gsub('\n%.', '\n\\&.'):sub(2))
end

local function code_block(block)
  return pandoc.RawBlock('man', '.PP\n.RS 4\n.nf\n' .. escaped(block.text) .. '\n.fi\n.RE')
end

local function code(inline)
  return pandoc.RawInline('man', '\\f[B]' .. escaped(inline.text) .. '\\f[R]')
end

-- Indexers look for the escaped dash in NAME.
local function name_dash(inline)
  return inline.text == '-' and pandoc.RawInline('man', '\\-') or inline
end

local function paragraphs(document)
  local blocks = document.blocks
  for i = 2, #blocks do
    local before = blocks[i - 1]
    -- A heading starts a paragraph by itself. Declarations in SYNOPSIS are not indented further.
    if before.t == 'Header' and blocks[i].t == 'RawBlock' then
      blocks[i].text = blocks[i].text:gsub('^%.PP\n', '')
      if pandoc.utils.stringify(before) == 'SYNOPSIS' then
        blocks[i].text = blocks[i].text:gsub('^%.RS 4\n', ''):gsub('\n%.RE$', '')
      end
    elseif before.t == 'Header' and blocks[i].t == 'Para' then
      blocks[i] = pandoc.Plain(blocks[i].content)
      if pandoc.utils.stringify(before) == 'NAME' then
        blocks[i] = pandoc.walk_block(blocks[i], { Str = name_dash })
      end
    end
  end
  return document
end

return { { CodeBlock = code_block, Code = code }, { Pandoc = paragraphs } }

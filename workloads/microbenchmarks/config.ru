# frozen_string_literal: true

require_relative 'programs'

ROUNDS = { '/growarray' => :growarray, '/plist' => :plist, '/shrinkarray' => :shrinkarray }.freeze
HEAD = { 'content-type' => 'text/plain' }.freeze

# One request runs one round of one program.
run(lambda do |env|
  program = ROUNDS[env['PATH_INFO']]
  Programs.public_send(program) if program
  [program || env['PATH_INFO'] == '/ready' ? 200 : 404, HEAD, ['done']]
end)

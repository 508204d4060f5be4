# frozen_string_literal: true

# `bin/package` builds it in a copy of this folder: one gem for each platform that has a program in libexec, and one for all
# others, which says so.
Gem::Specification.new do |spec|
  spec.name = 'carat'
  spec.version = ENV.fetch('CARAT_GEM_VERSION')
  spec.platform = ENV.fetch('CARAT_GEM_PLATFORM')
  spec.summary = 'Weighs Ruby servers, proves which setting makes them smaller, and runs them that way.'
  spec.description = <<~TEXT
    The program carat: it says where every megabyte of a Ruby server is, proves by experiment which setting makes the server
    smaller and at what cost, and starts it under these settings. Nothing is compiled on installation.
  TEXT
  spec.authors = ['The Carat maintainers']
  spec.licenses = %w[MIT Apache-2.0]
  spec.required_ruby_version = '>= 2.7'
  spec.bindir = 'exe'
  spec.executables = ['carat']
  spec.files = Dir['exe/carat', 'lib/**/*.rb', 'libexec/*', 'LICENSE-*', 'THIRD-PARTY-LICENSES.txt', 'README.md']
  spec.metadata['rubygems_mfa_required'] = 'true'
end

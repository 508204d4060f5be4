# frozen_string_literal: true

require 'open3'

# Where the workloads run: this machine's own Ruby, or that of a root made by `bin/roots`.
class System
  CHECKOUT = File.expand_path('../..', __dir__)

  attr_reader :name

  def initialize(name)
    @name = name
  end

  def here?
    name == 'here'
  end

  def folder(workload)
    File.join(CHECKOUT, 'workloads', workload)
  end

  # The command line that runs `command` on this system, in the folder where it is started.
  def wrap(command)
    here? ? command : [File.join(CHECKOUT, 'bin/roots'), '--run', name, '--', *command]
  end

  # Standard output of a command that has to succeed.
  def capture(*command, workload:)
    output, status = Open3.capture2(*wrap(command), chdir: folder(workload))
    raise "#{command.join(' ')} failed on #{name}: #{status}" unless status.success?

    output
  end

  # Whether this system's Ruby has these libraries; ruby34 has only those of pure Ruby.
  def libraries?(*names)
    script = names.map { |library| "require '#{library}'" }.join(';')
    system(*wrap(['ruby', '-e', script]), chdir: __dir__, err: File::NULL)
  end
end

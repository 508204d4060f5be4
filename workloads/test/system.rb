# frozen_string_literal: true

require 'fileutils'
require 'open3'
require 'tmpdir'

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

  # The folder of a workload as the command sees it: a root shares only `/tmp` with this machine.
  def folder(workload)
    File.join(here? ? File.join(CHECKOUT, 'workloads') : copied_workloads, workload)
  end

  # The command line that runs `command` in that folder on this system.
  def wrap(command, folder)
    inside = ['sh', '-c', 'cd "$0" && exec "$@"', folder, *command]
    here? ? inside : [File.join(CHECKOUT, 'bin/roots'), '--run', name, '--', *inside]
  end

  # Standard output of a command that has to succeed.
  def capture(*command, dir:)
    output, status = Open3.capture2(*wrap(command, folder(dir)))
    raise "#{command.join(' ')} failed on #{name}: #{status}" unless status.success?

    output
  end

  # Whether this system's Ruby has these libraries; ruby34 has only those of pure Ruby.
  def libraries?(*names)
    script = names.map { |library| "require '#{library}'" }.join(';')
    system(*wrap(['ruby', '-e', script], '/'), err: File::NULL)
  end

  private

  def copied_workloads
    @copied_workloads ||= Dir.mktmpdir('carat-workloads-').tap do |copy|
      at_exit { FileUtils.rm_rf(copy) }
      FileUtils.cp_r(File.join(CHECKOUT, 'workloads', '.'), copy)
      FileUtils.chmod(0o755, copy)
    end
  end
end

# frozen_string_literal: true

# Runs one full GC in every worker after its `FULL_GC_AT`-th page, so that memory can be read before and after it. Without
# the variable nothing is counted.
class FullCollection
  AT = Integer(ENV.fetch('FULL_GC_AT', '0'))

  def self.on?
    AT.positive?
  end

  def initialize(app)
    @app = app
    @pages = 0
  end

  # Puma calls `rack.after_reply` on the same thread, so no response waits for the collection.
  def call(env)
    response = @app.call(env)
    @pages += 1
    env['rack.after_reply'] << GC.method(:start) if @pages == AT
    response
  end
end
